package podfiles

import (
	"slices"

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
	unlimited := func(c corev1.Container) bool { return c.Resources.Limits.Memory().IsZero() }
	whole := pod.Spec.Resources
	if (whole == nil || whole.Limits.Memory().IsZero()) &&
		(slices.ContainsFunc(pod.Spec.Containers, unlimited) || slices.ContainsFunc(pod.Spec.InitContainers, unlimited)) {
		return 0
	}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	return limits.Memory().Value()
}
