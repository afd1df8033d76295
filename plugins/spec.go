package plugins

import corev1 "k8s.io/api/core/v1"

// Spec is a volume as plugins see it: a PersistentVolume or a volume written out in a pod. Exactly one of the two is set.
// The objects are read-only.
//
// Upstream: pkg/volume Spec.
type Spec struct {
	Volume           *corev1.Volume
	PersistentVolume *corev1.PersistentVolume
	ReadOnly         bool // the pod asked for it read-only
	Inline           bool // the PersistentVolume is made of a volume written out in a pod, and no API server has it
}

// Name is the PersistentVolume's name, or that of the volume in the pod.
func (s *Spec) Name() string {
	switch {
	case s.PersistentVolume != nil:
		return s.PersistentVolume.Name
	case s.Volume != nil:
		return s.Volume.Name
	default:
		return ""
	}
}

// AccessModes are the modes of the PersistentVolume; none for a volume in a pod.
func (s *Spec) AccessModes() []corev1.PersistentVolumeAccessMode {
	if s.PersistentVolume == nil {
		return nil
	}
	return s.PersistentVolume.Spec.AccessModes
}
