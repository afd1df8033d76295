package fake

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// networkKinds are the resources of the group networking.k8s.io.
//
// Upstream: pkg/registry/networking, the strategies.
var networkKinds = []*kind{
	newKind(strategy[*networkingv1.Ingress]{
		resource: "ingresses", gvk: networkingv1.SchemeGroupVersion.WithKind("Ingress"), namespaced: true,
		rules:                    rules.Ingress,
		short:                    []string{"ing"},
		copyStatus:               func(to, from *networkingv1.Ingress) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []networkingv1.Ingress) runtime.Object {
		return &networkingv1.IngressList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*networkingv1.IngressClass]{
		resource: "ingressclasses", gvk: networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
		rules:                    rules.IngressClass,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []networkingv1.IngressClass) runtime.Object {
		return &networkingv1.IngressClassList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*networkingv1.NetworkPolicy]{
		resource: "networkpolicies", gvk: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), namespaced: true,
		rules:                    rules.NetworkPolicy,
		short:                    []string{"netpol"},
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []networkingv1.NetworkPolicy) runtime.Object {
		return &networkingv1.NetworkPolicyList{ListMeta: m, Items: items}
	}),
}

// autoscalingKinds are the resources of the group autoscaling.
//
// Upstream: pkg/registry/autoscaling, the strategy.
var autoscalingKinds = []*kind{
	newKind(strategy[*autoscalingv2.HorizontalPodAutoscaler]{
		resource: "horizontalpodautoscalers",
		gvk:      autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), namespaced: true,
		rules:                    rules.HorizontalPodAutoscaler,
		short:                    []string{"hpa"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *autoscalingv2.HorizontalPodAutoscaler) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []autoscalingv2.HorizontalPodAutoscaler) runtime.Object {
		return &autoscalingv2.HorizontalPodAutoscalerList{ListMeta: m, Items: items}
	}),
}

// webhookKinds are the resources of the group admissionregistration.k8s.io.
//
// Upstream: pkg/registry/admissionregistration, the strategies.
// Differs: the webhooks are not called.
var webhookKinds = []*kind{
	newKind(strategy[*admissionv1.ValidatingWebhookConfiguration]{
		resource:            "validatingwebhookconfigurations",
		gvk:                 admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
		rules:               rules.ValidatingWebhookConfiguration,
		categories:          []string{"api-extensions"},
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []admissionv1.ValidatingWebhookConfiguration) runtime.Object {
		return &admissionv1.ValidatingWebhookConfigurationList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*admissionv1.MutatingWebhookConfiguration]{
		resource:            "mutatingwebhookconfigurations",
		gvk:                 admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		rules:               rules.MutatingWebhookConfiguration,
		categories:          []string{"api-extensions"},
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []admissionv1.MutatingWebhookConfiguration) runtime.Object {
		return &admissionv1.MutatingWebhookConfigurationList{ListMeta: m, Items: items}
	}),
}
