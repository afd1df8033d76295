package driver

import (
	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// A VolumeUse states how a volume is used, in terms of the Kubernetes API.
type VolumeUse struct {
	AccessModes  []corev1.PersistentVolumeAccessMode
	VolumeMode   *corev1.PersistentVolumeMode // nil: Filesystem
	FSType       string
	MountOptions []string
}

// IsBlock reports whether a volume mode is Block.
func IsBlock(mode *corev1.PersistentVolumeMode) bool {
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}

// VolumeCapability returns the CSI capability for a use. It fails if AccessMode does.
//
// Upstream: external-attacher pkg/controller GetVolumeCapabilities (4.13.0).
func (c Capabilities) VolumeCapability(use VolumeUse) (*csispec.VolumeCapability, error) {
	mode, err := AccessMode(use.AccessModes, c[csispec.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER])
	if err != nil {
		return nil, err
	}
	capability := &csispec.VolumeCapability{AccessMode: &csispec.VolumeCapability_AccessMode{Mode: mode}}
	if IsBlock(use.VolumeMode) {
		capability.AccessType = &csispec.VolumeCapability_Block{Block: &csispec.VolumeCapability_BlockVolume{}}
		return capability, nil
	}
	capability.AccessType = &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{
		FsType: use.FSType, MountFlags: use.MountOptions,
	}}
	return capability, nil
}
