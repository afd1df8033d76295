package fake

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// policyKinds are the admission policies and their bindings. Package fake/admission acts on them. The Go types of the
// mutating ones are those of v1beta1, which have the fields of v1: k8s.io/api has others from v0.36 on only.
//
// Differs: the typed client has the mutating ones in v1beta1, even if client-go has v1.
//
// Upstream: pkg/registry/admissionregistration, the strategies.
var policyKinds = []*kind{
	newKind(strategy[*admissionv1.ValidatingAdmissionPolicy]{
		resource:            "validatingadmissionpolicies",
		gvk:                 admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
		rules:               rules.ValidatingAdmissionPolicy,
		categories:          []string{"api-extensions"},
		copyStatus:          func(to, from *admissionv1.ValidatingAdmissionPolicy) { to.Status = from.Status },
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []admissionv1.ValidatingAdmissionPolicy) runtime.Object {
		return &admissionv1.ValidatingAdmissionPolicyList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*admissionv1.ValidatingAdmissionPolicyBinding]{
		resource:            "validatingadmissionpolicybindings",
		gvk:                 admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
		rules:               rules.ValidatingAdmissionPolicyBinding,
		categories:          []string{"api-extensions"},
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []admissionv1.ValidatingAdmissionPolicyBinding) runtime.Object {
		return &admissionv1.ValidatingAdmissionPolicyBindingList{ListMeta: m, Items: items}
	}),

	newMutatingPolicyKind("v1"),
	newMutatingBindingKind("v1"),
}

func newMutatingPolicyKind(version string) *kind {
	return newKind(strategy[*admissionv1beta1.MutatingAdmissionPolicy]{
		resource:            "mutatingadmissionpolicies",
		gvk:                 admissionv1beta1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy").GroupKind().WithVersion(version),
		rules:               rules.MutatingAdmissionPolicy,
		categories:          []string{"api-extensions"},
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []admissionv1beta1.MutatingAdmissionPolicy) runtime.Object {
		return &admissionv1beta1.MutatingAdmissionPolicyList{ListMeta: m, Items: items}
	})
}

func newMutatingBindingKind(version string) *kind {
	return newKind(strategy[*admissionv1beta1.MutatingAdmissionPolicyBinding]{
		resource:            "mutatingadmissionpolicybindings",
		gvk:                 admissionv1beta1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding").GroupKind().WithVersion(version),
		rules:               rules.MutatingAdmissionPolicyBinding,
		categories:          []string{"api-extensions"},
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []admissionv1beta1.MutatingAdmissionPolicyBinding) runtime.Object {
		return &admissionv1beta1.MutatingAdmissionPolicyBindingList{ListMeta: m, Items: items}
	})
}

// newBetaView returns the kind that serves mutating policies, or their bindings, in v1beta1.
//
// Differs: the real server serves v1beta1 only with --runtime-config.
func newBetaView(of *kind) *kind {
	make := newMutatingPolicyKind
	if of.resource == "mutatingadmissionpolicybindings" {
		make = newMutatingBindingKind
	}
	k := make("v1beta1")
	k.id, k.base = tableID("v1beta1."+of.gvk.Group, of.resource), of
	k.fromStored = func(stored Object) (Object, error) { return stored, nil }
	k.toStored = func(shown, _ Object) (Object, error) { return shown, nil }
	return k
}
