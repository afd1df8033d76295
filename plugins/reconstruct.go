package plugins

import "k8s.io/apimachinery/pkg/types"

// A DeviceReconstructor is a plugin that can determine from the node's disk alone which volumes are
// mounted or prepared for the node, whether or not a pod's directory refers to them.
//
// Differs: upstream finds what is mounted for a node only through the directories of pods. A volume
// that was unmounted from its last pod before the kubelet stopped then stays mounted indefinitely.
type DeviceReconstructor interface {
	// ReconstructDevices returns the volumes that MountDevice or SetUpDevice has prepared for the
	// node, or begun to prepare, sorted by path.
	ReconstructDevices() ([]ReconstructedDevice, error)
}

// A ReconstructedDevice is a volume that is, or may be, mounted or prepared for the node.
type ReconstructedDevice struct {
	Path string // where it is mounted; for a block volume, where it is mapped
	// Spec is as in Reconstructed; its Name need not be that of the volume. nil: the disk does not
	// identify the volume.
	Spec         *Spec
	Block        bool        // pods use it as a device
	Pods         []types.UID // for which a device may still be mapped, sorted
	SELinuxLabel string      // with which it was mounted
}
