package rules

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Copies of the objects that are copied most. They are what DeepCopyInto makes, but that maps are cloned whole and not
// filled one key after the other, which is half of the work; and that a draft of what is to come in the place of a stored
// object shares with it the maps that are the same. A map of a draft is therefore never changed.

// copyClaim makes out a copy of in that shares nothing.
func copyClaim(in, out *corev1.PersistentVolumeClaim) { copyClaimSharing(in, out, noClaim) }

// copyVolume makes out a copy of in that shares nothing.
func copyVolume(in, out *corev1.PersistentVolume) { copyVolumeSharing(in, out, noVolume) }

var (
	noClaim  = &corev1.PersistentVolumeClaim{}
	noVolume = &corev1.PersistentVolume{}
)

// draftClaim makes out a copy of in, to come in old's place: of all but the status, or, of a write of /status, of that and
// the metadata.
func draftClaim(in, out, old *corev1.PersistentVolumeClaim, status bool) {
	bare := corev1.PersistentVolumeClaim{ObjectMeta: in.ObjectMeta}
	if status {
		bare.Status = in.Status
	} else {
		bare.TypeMeta, bare.Spec = in.TypeMeta, in.Spec
	}
	copyClaimSharing(&bare, out, old)
}

// draftVolume is draftClaim of a volume.
func draftVolume(in, out, old *corev1.PersistentVolume, status bool) {
	bare := corev1.PersistentVolume{ObjectMeta: in.ObjectMeta}
	if status {
		bare.Status = in.Status
	} else {
		bare.TypeMeta, bare.Spec = in.TypeMeta, in.Spec
	}
	copyVolumeSharing(&bare, out, old)
}

// copyClaimSharing makes out a copy of in that shares nothing but maps of old.
func copyClaimSharing(in, out, old *corev1.PersistentVolumeClaim) {
	bare := *in
	bare.Labels, bare.Annotations = nil, nil
	bare.Spec.Resources.Requests, bare.Status.Capacity = nil, nil
	bare.DeepCopyInto(out)
	cloneMeta(&in.ObjectMeta, &out.ObjectMeta, &old.ObjectMeta)
	out.Spec.Resources.Requests = cloneQuantities(in.Spec.Resources.Requests, old.Spec.Resources.Requests)
	out.Status.Capacity = cloneQuantities(in.Status.Capacity, old.Status.Capacity)
}

// copyVolumeSharing makes out a copy of in that shares nothing but maps of old.
func copyVolumeSharing(in, out, old *corev1.PersistentVolume) {
	bare := *in
	bare.Labels, bare.Annotations, bare.Spec.Capacity = nil, nil, nil
	bare.DeepCopyInto(out)
	cloneMeta(&in.ObjectMeta, &out.ObjectMeta, &old.ObjectMeta)
	out.Spec.Capacity = cloneQuantities(in.Spec.Capacity, old.Spec.Capacity)
}

// cloneMeta copies the labels and annotations, unless they are the old ones.
func cloneMeta(in, out, old *metav1.ObjectMeta) {
	out.Labels, out.Annotations = cloneUnless(in.Labels, old.Labels), cloneUnless(in.Annotations, old.Annotations)
}

// cloneUnless copies a map, or returns the old one if it is the same.
func cloneUnless[M ~map[K]V, K, V comparable](in, old M) M {
	if len(in) > 0 && maps.Equal(in, old) {
		return old
	}
	return maps.Clone(in)
}

// cloneQuantities copies a list of resources, unless it is the old one. A quantity that is a plain number shares nothing
// with its copy.
func cloneQuantities(in, old corev1.ResourceList) corev1.ResourceList {
	for _, q := range in {
		if _, plain := q.AsInt64(); !plain {
			return in.DeepCopy()
		}
	}
	return cloneUnless(in, old)
}
