package fake

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// Copies of the objects that are copied most. They are what DeepCopyInto makes, but that maps are cloned whole and not
// filled one key after the other, which is half of the work.

// copyClaim makes out a copy of in that shares nothing.
func copyClaim(in, out *corev1.PersistentVolumeClaim) {
	bare := *in
	bare.Labels, bare.Annotations = nil, nil
	bare.Spec.Resources.Requests, bare.Status.Capacity = nil, nil
	bare.DeepCopyInto(out)
	out.Labels, out.Annotations = maps.Clone(in.Labels), maps.Clone(in.Annotations)
	out.Spec.Resources.Requests = cloneQuantities(in.Spec.Resources.Requests)
	out.Status.Capacity = cloneQuantities(in.Status.Capacity)
}

// copyVolume makes out a copy of in that shares nothing.
func copyVolume(in, out *corev1.PersistentVolume) {
	bare := *in
	bare.Labels, bare.Annotations, bare.Spec.Capacity = nil, nil, nil
	bare.DeepCopyInto(out)
	out.Labels, out.Annotations = maps.Clone(in.Labels), maps.Clone(in.Annotations)
	out.Spec.Capacity = cloneQuantities(in.Spec.Capacity)
}

// cloneQuantities copies a list of resources. A quantity that is a plain number shares nothing with its copy.
func cloneQuantities(in corev1.ResourceList) corev1.ResourceList {
	for _, q := range in {
		if _, plain := q.AsInt64(); !plain {
			return in.DeepCopy()
		}
	}
	return maps.Clone(in)
}
