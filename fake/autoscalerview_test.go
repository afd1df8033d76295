package fake_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestAutoscalersOfVersion1: an update in version 1 keeps what only version 2 can say.
func TestAutoscalersOfVersion1(t *testing.T) {
	_, c := newServer(t, "default")
	ctx, v2, v1 := t.Context(), c.AutoscalingV2().HorizontalPodAutoscalers("default"), c.AutoscalingV1().HorizontalPodAutoscalers("default")
	limit := apiresource.MustParse("1Gi")
	created := testcheck.Must(v2.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"},
			MaxReplicas:    5,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &limit},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{},
		},
	}, metav1.CreateOptions{}))
	old := testcheck.Must(v1.Get(ctx, "web", metav1.GetOptions{}))
	if old.Spec.TargetCPUUtilizationPercentage != nil {
		t.Errorf("version 1 shows a metric of memory as %d%% CPU", *old.Spec.TargetCPUUtilizationPercentage)
	}
	old.Spec.MaxReplicas, old.Spec.TargetCPUUtilizationPercentage = 7, ptr.To[int32](60)
	testcheck.Must(v1.Update(ctx, old, metav1.UpdateOptions{}))
	want := created.DeepCopy()
	want.Spec.MaxReplicas = 7
	want.Spec.Metrics = append(want.Spec.Metrics, autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](60)},
		},
	})
	got := testcheck.Must(v2.Get(ctx, "web", metav1.GetOptions{}))
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	scaled := testcheck.Must(v1.Get(ctx, "web", metav1.GetOptions{}))
	scaled.Status.DesiredReplicas, scaled.Spec.MaxReplicas = 3, 9
	testcheck.Must(v1.UpdateStatus(ctx, scaled, metav1.UpdateOptions{}))
	got = testcheck.Must(v2.Get(ctx, "web", metav1.GetOptions{}))
	if got.Status.DesiredReplicas != 3 || got.Spec.MaxReplicas != 7 {
		t.Errorf("a write of the status: %d replicas desired, at most %d", got.Status.DesiredReplicas, got.Spec.MaxReplicas)
	}
}
