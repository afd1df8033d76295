package fake

import (
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// newAutoscalerView returns the kind that serves the autoscalers of autoscaling/v2 as those of
// autoscaling/v1, which know only one metric.
//
// Upstream: pkg/apis/autoscaling/v1/conversion.go.
// Differs: an update in version 1 keeps other metrics, behavior and conditions of the stored object.
// Upstream shows them as annotations instead, and takes them from there.
func newAutoscalerView(of *kind) *kind {
	k := newKind(strategy[*autoscalingv1.HorizontalPodAutoscaler]{
		resource: of.resource, gvk: autoscalingv1.SchemeGroupVersion.WithKind(of.gvk.Kind), namespaced: true,
		short: of.short, categories: of.categories,
		copyStatus:               func(to, from *autoscalingv1.HorizontalPodAutoscaler) { to.Status = from.Status },
		allowUnconditionalUpdate: true, deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []autoscalingv1.HorizontalPodAutoscaler) runtime.Object {
		return &autoscalingv1.HorizontalPodAutoscalerList{ListMeta: m, Items: items}
	})
	k.id, k.base = tableID("v1."+of.gvk.Group, of.resource), of
	k.fromStored = func(stored Object) (Object, error) {
		return toAutoscalingV1(stored.(*autoscalingv2.HorizontalPodAutoscaler)), nil
	}
	k.toStored = func(shown, stored Object) (Object, error) {
		old, _ := stored.(*autoscalingv2.HorizontalPodAutoscaler)
		return fromAutoscalingV1(shown.(*autoscalingv1.HorizontalPodAutoscaler), old), nil
	}
	return k
}

// cpuUtilization reports whether a metric is the one of version 1.
func cpuUtilization(m autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

func toAutoscalingV1(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	if i := slices.IndexFunc(a.Spec.Metrics, cpuUtilization); i >= 0 {
		out.Spec.TargetCPUUtilizationPercentage = a.Spec.Metrics[i].Resource.Target.AverageUtilization
	}
	for _, m := range a.Status.CurrentMetrics {
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
			m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	return out
}

// fromAutoscalingV1 returns the stored form of an autoscaler. old is nil at a creation.
func fromAutoscalingV1(a *autoscalingv1.HorizontalPodAutoscaler, old *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	if old != nil {
		kept := old.DeepCopy()
		out.Spec.Metrics = slices.DeleteFunc(kept.Spec.Metrics, cpuUtilization)
		out.Spec.Behavior = kept.Spec.Behavior
		out.Status.CurrentMetrics, out.Status.Conditions = kept.Status.CurrentMetrics, kept.Status.Conditions
	}
	if percent := a.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, rules.CPUMetric(*percent))
	}
	if percent := a.Status.CurrentCPUUtilizationPercentage; percent != nil && len(out.Status.CurrentMetrics) == 0 {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent},
			},
		}}
	}
	return out
}
