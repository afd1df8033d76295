package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The columns of networking.k8s.io, of autoscalers and of the configurations of webhooks.
var (
	ingressColumns = []metav1.TableColumnDefinition{
		name,
		text("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		text("Address", "Address is a list containing ingress points for the load-balancer"),
		text("Ports", "Ports of TLS configurations that open"),
		age,
	}
	ingressClassColumns = []metav1.TableColumnDefinition{
		name,
		text("Controller", "Controller that is responsible for handling this class"),
		text("Parameters", "A reference to a resource with additional parameters"),
		age,
	}
	networkPolicyColumns = []metav1.TableColumnDefinition{
		name, text("Pod-Selector", doc(networkingv1.NetworkPolicySpec{}, "podSelector")), age,
	}
	autoscalerColumns = []metav1.TableColumnDefinition{
		name,
		text("Reference", doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "scaleTargetRef")),
		text("Targets", doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "metrics")),
		text("MinPods", doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "minReplicas")),
		text("MaxPods", doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "maxReplicas")),
		text("Replicas", doc(autoscalingv2.HorizontalPodAutoscalerStatus{}, "currentReplicas")),
		age,
	}
)

var webhookColumns = []metav1.TableColumnDefinition{
	name, number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), age,
}

const (
	hostsMax   = 3
	metricsMax = 2
)

func ingressCells(i *networkingv1.Ingress, now clock) []any {
	ports := "80"
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{
		i.Name, ptr.Deref(i.Spec.IngressClassName, none), ingressHosts(i.Spec.Rules), ingressAddresses(i), ports,
		now.since(i.CreationTimestamp),
	}
}

// ingressHosts lists the first hosts of rules. A rule after the first hosts counts even without one.
func ingressHosts(rules []networkingv1.IngressRule) string {
	var hosts []string
	more := false
	for _, r := range rules {
		more = more || len(hosts) == hostsMax
		if !more && r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	switch list := strings.Join(hosts, ","); {
	case list == "":
		return "*"
	case more:
		return fmt.Sprintf("%s + %d more...", list, len(rules)-hostsMax)
	default:
		return list
	}
}

func ingressAddresses(i *networkingv1.Ingress) string {
	all := map[string]bool{}
	for _, in := range i.Status.LoadBalancer.Ingress {
		if address := cmp.Or(in.IP, in.Hostname); address != "" {
			all[address] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}

func ingressClassCells(c *networkingv1.IngressClass, now clock) []any {
	shown, parameters := c.Name, none
	if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		shown += " (default)"
	}
	if p := c.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{shown, c.Spec.Controller, parameters, now.since(c.CreationTimestamp)}
}

func networkPolicyCells(p *networkingv1.NetworkPolicy, now clock) []any {
	return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), now.since(p.CreationTimestamp)}
}

func autoscalerCells(a *autoscalingv2.HorizontalPodAutoscaler, now clock) []any {
	least := "<unset>"
	if a.Spec.MinReplicas != nil {
		least = fmt.Sprint(*a.Spec.MinReplicas)
	}
	return []any{
		a.Name, a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name, metricsCell(a), least,
		int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas), now.since(a.CreationTimestamp),
	}
}

// oldAutoscalerCells shows an autoscaler of version 1, which has at most one metric.
func oldAutoscalerCells(a *autoscalingv1.HorizontalPodAutoscaler, now clock) []any {
	current := autoscalingv2.MetricValueStatus{AverageUtilization: a.Status.CurrentCPUUtilizationPercentage}
	target := autoscalingv2.MetricTarget{AverageUtilization: a.Spec.TargetCPUUtilizationPercentage}
	shown := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			CurrentReplicas: a.Status.CurrentReplicas,
			CurrentMetrics: []autoscalingv2.MetricStatus{{
				Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: current},
			}},
		},
	}
	if a.Spec.TargetCPUUtilizationPercentage != nil {
		shown.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type:     autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: target},
		}}
	}
	return autoscalerCells(shown, now)
}

// metricsCell lists the first metrics of an autoscaler, current value and target.
func metricsCell(a *autoscalingv2.HorizontalPodAutoscaler) string {
	var all []string
	for i, m := range a.Spec.Metrics {
		var now autoscalingv2.MetricStatus
		if i < len(a.Status.CurrentMetrics) {
			now = a.Status.CurrentMetrics[i]
		}
		all = append(all, metricCell(&m, &now))
	}
	switch {
	case len(all) == 0:
		return none
	case len(all) > metricsMax:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:metricsMax], ", "), len(all)-metricsMax)
	default:
		return strings.Join(all, ", ")
	}
}

func metricCell(m *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	now := currentOf(m.Type, status)
	switch m.Type {
	case autoscalingv2.ExternalMetricSourceType:
		return valueCell(&m.External.Target, now)
	case autoscalingv2.ObjectMetricSourceType:
		return valueCell(&m.Object.Target, now)
	case autoscalingv2.PodsMetricSourceType:
		return quantityCell(now.AverageValue) + "/" + quantityCell(m.Pods.Target.AverageValue)
	case autoscalingv2.ResourceMetricSourceType:
		return utilizationCell(m.Resource.Name, &m.Resource.Target, now)
	case autoscalingv2.ContainerResourceMetricSourceType:
		return utilizationCell(m.ContainerResource.Name, &m.ContainerResource.Target, now)
	default:
		return "<unknown type>"
	}
}

// currentOf returns the current values of a metric, empty if the status has none.
func currentOf(source autoscalingv2.MetricSourceType, s *autoscalingv2.MetricStatus) autoscalingv2.MetricValueStatus {
	switch {
	case source == autoscalingv2.ExternalMetricSourceType && s.External != nil:
		return s.External.Current
	case source == autoscalingv2.ObjectMetricSourceType && s.Object != nil:
		return s.Object.Current
	case source == autoscalingv2.PodsMetricSourceType && s.Pods != nil:
		return s.Pods.Current
	case source == autoscalingv2.ResourceMetricSourceType && s.Resource != nil:
		return s.Resource.Current
	case source == autoscalingv2.ContainerResourceMetricSourceType && s.ContainerResource != nil:
		return s.ContainerResource.Current
	}
	return autoscalingv2.MetricValueStatus{}
}

func valueCell(target *autoscalingv2.MetricTarget, now autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return quantityCell(now.AverageValue) + "/" + quantityCell(target.AverageValue) + " (avg)"
	}
	return quantityCell(now.Value) + "/" + quantityCell(target.Value)
}

func utilizationCell(resource corev1.ResourceName, target *autoscalingv2.MetricTarget, now autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return fmt.Sprintf("%s: %s/%s", resource, quantityCell(now.AverageValue), quantityCell(target.AverageValue))
	}
	percent := func(v *int32, otherwise string) string {
		if v == nil {
			return otherwise
		}
		return fmt.Sprintf("%d%%", *v)
	}
	return fmt.Sprintf("%s: %s/%s", resource, percent(now.AverageUtilization, unknown), percent(target.AverageUtilization, "<auto>"))
}

func quantityCell(q *apiresource.Quantity) string {
	if q == nil {
		return unknown
	}
	return q.String()
}

func validatingCells(c *admissionv1.ValidatingWebhookConfiguration, now clock) []any {
	return []any{c.Name, int64(len(c.Webhooks)), now.since(c.CreationTimestamp)}
}

func mutatingCells(c *admissionv1.MutatingWebhookConfiguration, now clock) []any {
	return []any{c.Name, int64(len(c.Webhooks)), now.since(c.CreationTimestamp)}
}
