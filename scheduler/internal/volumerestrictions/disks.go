package volumerestrictions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hasDisks reports whether a pod contains disks that pods of a node may not share.
func hasDisks(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if isDisk(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func isDisk(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

// conflict reports whether two pods cannot use their disks on the same node.
//
// Upstream: plugins/volumerestrictions satisfyVolumeConflicts (v1.36).
func conflict(pod, other *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if !isDisk(&pod.Spec.Volumes[i]) {
			continue
		}
		for j := range other.Spec.Volumes {
			if sameDisk(&pod.Spec.Volumes[i], &other.Spec.Volumes[j]) {
				return true
			}
		}
	}
	return false
}

// sameDisk reports whether two volumes are one disk, and it may not be shared.
//
// Upstream: plugins/volumerestrictions isVolumeConflict (v1.36).
func sameDisk(a, b *corev1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		a, b := a.GCEPersistentDisk, b.GCEPersistentDisk
		return a.PDName == b.PDName && !(a.ReadOnly && b.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		a, b := a.RBD, b.RBD
		shared := slices.ContainsFunc(a.CephMonitors, func(m string) bool { return slices.Contains(b.CephMonitors, m) })
		return shared && a.RBDPool == b.RBDPool && a.RBDImage == b.RBDImage && !(a.ReadOnly && b.ReadOnly)
	default:
		return false
	}
}
