package pvcprotection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// uses reports whether a pod keeps a claim of its namespace from deletion. Only a scheduled pod
// does: the kubelet does not start a pod whose claim is being deleted.
//
// Upstream: pkg/controller/volume/pvcprotection podUsesPVCForDeletion (v1.36).
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.PersistentVolumeClaim != nil:
			if volume.PersistentVolumeClaim.ClaimName == claim.Name {
				return true
			}
		case volume.Ephemeral != nil:
			if ephemeral.VolumeClaimName(pod, volume) == claim.Name && ephemeral.VolumeIsForPod(pod, claim) == nil &&
				!isShutDown(pod) {
				return true
			}
		}
	}
	return false
}

// isShutDown reports whether the kubelet has finished with a pod, or its deletion was forced.
//
// Upstream: pkg/controller/volume/pvcprotection podIsShutDown (v1.36).
func isShutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
