package podfiles

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// TestMemorySize begins with the rows of upstream's TestCalculateEmptyDirMemorySize.
func TestMemorySize(t *testing.T) {
	container := func(memory string) corev1.Container {
		c := corev1.Container{Name: "c"}
		if memory != "" {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		}
		return c
	}
	for _, tt := range []struct {
		name       string
		containers []corev1.Container
		whole      string // limit of the pod
		volume     string
		want       string
	}{
		{name: "EmptyDirLocalLimit", containers: []corev1.Container{container("10Gi")}, volume: "1Gi", want: "1Gi"},
		{name: "PodLocalLimit", containers: []corev1.Container{container("10Gi")}, volume: "0", want: "10Gi"},
		{name: "NodeAllocatableLimit", containers: []corev1.Container{container("")}, volume: "0", want: "16Gi"},
		{name: "a container without a limit", containers: []corev1.Container{container("1Gi"), container("")}, want: "16Gi"},
		{name: "sum of containers", containers: []corev1.Container{container("1Gi"), container("2Gi")}, want: "3Gi"},
		{name: "limit of the pod", containers: []corev1.Container{container("")}, whole: "4Gi", want: "4Gi"},
		{name: "volume larger than the pod", containers: []corev1.Container{container("1Gi")}, volume: "5Gi", want: "1Gi"},
		{name: "pod larger than the node", containers: []corev1.Container{container("32Gi")}, want: "16Gi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: tt.containers}}
			if tt.whole != "" {
				pod.Spec.Resources = &corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(tt.whole)},
				}
			}
			var volume *resource.Quantity
			if tt.volume != "" {
				volume = ptr.To(resource.MustParse(tt.volume))
			}
			node, want := resource.MustParse("16Gi"), resource.MustParse(tt.want)
			if got := memorySize(pod, volume, node.Value()); got != want.Value() {
				t.Errorf("%d, want %d", got, want.Value())
			}
		})
	}
}
