package rules

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has copy functions for the objects that are copied most. They return the same as
// DeepCopyInto, but clone a map as a whole instead of key by key, which halves the work. A draft,
// the copy that will replace a stored object, shares with that object the maps that are equal. Maps
// of a draft must therefore not be changed.

// copyClaim sets out to a deep copy of in.
func copyClaim(in, out *corev1.PersistentVolumeClaim) { copyClaimSharing(in, out, noClaim) }

// copyVolume sets out to a deep copy of in.
func copyVolume(in, out *corev1.PersistentVolume) { copyVolumeSharing(in, out, noVolume) }

// copyNode sets out to a deep copy of in.
func copyNode(in, out *corev1.Node) {
	bare := *in
	bare.Labels, bare.Annotations = nil, nil
	bare.Status.Capacity, bare.Status.Allocatable = nil, nil
	bare.DeepCopyInto(out)
	cloneMeta(&in.ObjectMeta, &out.ObjectMeta, &metav1.ObjectMeta{})
	out.Status.Capacity = cloneQuantities(in.Status.Capacity, nil)
	out.Status.Allocatable = cloneQuantities(in.Status.Allocatable, nil)
}

var (
	noClaim  = &corev1.PersistentVolumeClaim{}
	noVolume = &corev1.PersistentVolume{}
)

// draftClaim sets out to a copy of in that may replace old: all but the status or, for a write of
// /status, the status and the metadata.
func draftClaim(in, out, old *corev1.PersistentVolumeClaim, status bool) {
	bare := corev1.PersistentVolumeClaim{ObjectMeta: in.ObjectMeta}
	if status {
		bare.Status = in.Status
	} else {
		bare.TypeMeta, bare.Spec = in.TypeMeta, in.Spec
	}
	copyClaimSharing(&bare, out, old)
}

// draftVolume is draftClaim for a volume.
func draftVolume(in, out, old *corev1.PersistentVolume, status bool) {
	bare := corev1.PersistentVolume{ObjectMeta: in.ObjectMeta}
	if status {
		bare.Status = in.Status
	} else {
		bare.TypeMeta, bare.Spec = in.TypeMeta, in.Spec
	}
	copyVolumeSharing(&bare, out, old)
}

// copyClaimSharing sets out to a deep copy of in, except that equal maps are shared with old.
func copyClaimSharing(in, out, old *corev1.PersistentVolumeClaim) {
	bare := *in
	bare.Labels, bare.Annotations = nil, nil
	bare.Spec.Resources.Requests, bare.Status.Capacity = nil, nil
	bare.DeepCopyInto(out)
	cloneMeta(&in.ObjectMeta, &out.ObjectMeta, &old.ObjectMeta)
	out.Spec.Resources.Requests = cloneQuantities(in.Spec.Resources.Requests, old.Spec.Resources.Requests)
	out.Status.Capacity = cloneQuantities(in.Status.Capacity, old.Status.Capacity)
}

// copyVolumeSharing sets out to a deep copy of in, except that equal maps are shared with old.
func copyVolumeSharing(in, out, old *corev1.PersistentVolume) {
	bare := *in
	bare.Labels, bare.Annotations, bare.Spec.Capacity = nil, nil, nil
	bare.DeepCopyInto(out)
	cloneMeta(&in.ObjectMeta, &out.ObjectMeta, &old.ObjectMeta)
	out.Spec.Capacity = cloneQuantities(in.Spec.Capacity, old.Spec.Capacity)
}

// cloneMeta copies the labels and annotations, unless they are equal to the old ones.
func cloneMeta(in, out, old *metav1.ObjectMeta) {
	out.Labels, out.Annotations = cloneUnless(in.Labels, old.Labels), cloneUnless(in.Annotations, old.Annotations)
}

// cloneUnless returns a copy of a map, or the old map if it is equal.
func cloneUnless[M ~map[K]V, K, V comparable](in, old M) M {
	if len(in) > 0 && maps.Equal(in, old) {
		return old
	}
	return maps.Clone(in)
}

// cloneQuantities returns a copy of a resource list, or the old list if it is equal. An int64
// quantity shares nothing with its copy.
func cloneQuantities(in, old corev1.ResourceList) corev1.ResourceList {
	for _, q := range in {
		if _, plain := q.AsInt64(); !plain {
			return in.DeepCopy()
		}
	}
	return cloneUnless(in, old)
}
