package plugins

import "k8s.io/apimachinery/pkg/types"

// DeviceReconstructor is offered by plugins that can tell from the node's disk alone which volumes are mounted or prepared for
// the node, whether a directory of a pod names them or not.
//
// Differs: upstream finds what is mounted for a node through the directories of pods only, so that what was unmounted from
// its last pod before the kubelet ended stays mounted for ever.
type DeviceReconstructor interface {
	// ReconstructDevices returns the volumes that MountDevice or SetUpDevice have prepared for the node, or begun to, sorted by
	// path.
	ReconstructDevices() ([]ReconstructedDevice, error)
}

// ReconstructedDevice is a volume that is mounted or prepared for the node, or may be.
type ReconstructedDevice struct {
	Path string // where it is mounted; of one that pods use as a device, where it is mapped
	// Spec is as in Reconstructed; its Name need not be that of the volume. nil: which volume it is is not known any more.
	Spec         *Spec
	Block        bool        // pods use it as a device
	Pods         []types.UID // for which a device may still be mapped, sorted
	SELinuxLabel string      // that it was mounted with
}
