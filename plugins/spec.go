package plugins

import corev1 "k8s.io/api/core/v1"

// A Spec is a volume as plugins see it: a PersistentVolume or an inline volume of a pod. Exactly
// one of the two is set. The objects are read-only.
//
// Upstream: pkg/volume Spec.
type Spec struct {
	Volume           *corev1.Volume
	PersistentVolume *corev1.PersistentVolume
	ReadOnly         bool // the pod requests it read-only
	Inline           bool // the PersistentVolume was translated from an inline volume and does not exist in the API
}

// Name returns the name of the PersistentVolume, or of the inline volume.
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

// AccessModes returns the access modes of the PersistentVolume, or nil for an inline volume.
func (s *Spec) AccessModes() []corev1.PersistentVolumeAccessMode {
	if s.PersistentVolume == nil {
		return nil
	}
	return s.PersistentVolume.Spec.AccessModes
}
