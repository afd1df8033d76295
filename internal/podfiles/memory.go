package podfiles

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// memorySize returns the size of a file system in memory for a pod, in bytes: the least of the
// node's memory, the pod's limit and the volume's.
//
// Upstream: pkg/volume/emptydir calculateEmptyDirmemorySize (v1.36).
func memorySize(pod *corev1.Pod, volume *resource.Quantity, node int64) int64 {
	size := node
	lower := func(limit int64) {
		if limit > 0 && limit <= size {
			size = limit
		}
	}
	lower(memoryLimit(pod))
	if volume != nil {
		lower(volume.Value())
	}
	return size
}

// memoryLimit returns the memory limit of a pod in bytes; 0: a container has none.
//
// Upstream: pkg/kubelet/cm ResourceConfigForPod (v1.36).
func memoryLimit(pod *corev1.Pod) int64 {
	declared := true
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(limits corev1.ResourceList, _ resourcehelper.ContainerType) {
			declared = declared && !limits.Memory().IsZero()
		},
	})
	if whole := pod.Spec.Resources; whole != nil && !whole.Limits.Memory().IsZero() {
		declared = true
	}
	if !declared {
		return 0
	}
	return limits.Memory().Value()
}
