package csireq

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Features is what a driver can do with a volume. One node may always use it, as
// a writer or a reader, in one place only or in several.
type Features struct {
	// Block says that a volume may be a device, beside being mounted.
	Block bool
	// MultiNode says that several nodes may use one volume at once.
	MultiNode bool
	// FSTypes are the file systems that may be asked for; empty is any.
	FSTypes []string
	// ContentSources says that a volume may be made from a snapshot or another volume.
	ContentSources bool
	// Modify says that a volume has parameters that can be changed.
	Modify bool
}

// Check returns InvalidArgument when there is no capability or one of them is
// malformed or not offered.
func (o Features) Check(capabilities ...*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "volume_capabilities is missing")
	}
	for _, capability := range capabilities {
		if err := o.checkOne(capability); err != nil {
			return err
		}
	}
	return nil
}

func (o Features) checkOne(capability *csi.VolumeCapability) error {
	switch {
	case capability == nil:
		return status.Error(codes.InvalidArgument, "volume_capability is missing")
	case capability.GetBlock() != nil && !o.Block:
		return status.Error(codes.InvalidArgument, "raw block volumes are not offered")
	case capability.GetBlock() == nil && capability.GetMount() == nil:
		return status.Error(codes.InvalidArgument, "volume_capability has no access_type")
	}
	fsType := capability.GetMount().GetFsType()
	if fsType != "" && len(o.FSTypes) > 0 && !slices.Contains(o.FSTypes, fsType) {
		return status.Errorf(codes.InvalidArgument,
			"file system %q is not offered, only %s", fsType, strings.Join(o.FSTypes, ", "))
	}
	mode := capability.GetAccessMode().GetMode()
	switch mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return nil
	case csi.VolumeCapability_AccessMode_UNKNOWN:
		return status.Error(codes.InvalidArgument, "volume_capability has no access_mode")
	}
	if IsMultiNode(mode) && o.MultiNode {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "access mode %s is not offered", mode)
}

// IsMultiNode tells whether a mode lets several nodes use a volume at once.
func IsMultiNode(mode csi.VolumeCapability_AccessMode_Mode) bool {
	return mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
}

// IsReadOnly tells whether a capability lets nobody write: by its access mode or
// by the mount flag "ro".
func IsReadOnly(capability *csi.VolumeCapability) bool {
	mode := capability.GetAccessMode().GetMode()
	return mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY ||
		slices.Contains(capability.GetMount().GetMountFlags(), "ro")
}

// ControllerCapabilities is the answer of ControllerGetCapabilities.
func ControllerCapabilities(types ...csi.ControllerServiceCapability_RPC_Type) *csi.ControllerGetCapabilitiesResponse {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, each := range types {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: each}},
		})
	}
	return response
}

// NodeCapabilities is the answer of NodeGetCapabilities.
func NodeCapabilities(types ...csi.NodeServiceCapability_RPC_Type) *csi.NodeGetCapabilitiesResponse {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, each := range types {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: each}},
		})
	}
	return response
}
