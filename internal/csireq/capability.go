package csireq

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Features are the optional features of a driver. One node may always use a volume, as a writer or
// a reader, at one path or several.
type Features struct {
	// Block allows a volume to be used as a block device as well as mounted.
	Block bool
	// MultiNode allows several nodes to use one volume at once.
	MultiNode bool
	// FSTypes are the supported file systems; empty is any.
	FSTypes []string
	// ContentSources allows a volume to be created from a snapshot or another volume.
	ContentSources bool
	// Modify allows the parameters of a volume to be changed.
	Modify bool
}

// Check returns InvalidArgument if there is no capability, or one of them is malformed or not
// supported.
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
		return status.Error(codes.InvalidArgument, "raw block volumes are not supported")
	case capability.GetBlock() == nil && capability.GetMount() == nil:
		return status.Error(codes.InvalidArgument, "volume_capability has no access_type")
	}
	fsType := capability.GetMount().GetFsType()
	if fsType != "" && len(o.FSTypes) > 0 && !slices.Contains(o.FSTypes, fsType) {
		return status.Errorf(codes.InvalidArgument,
			"file system %q is not supported, only %s", fsType, strings.Join(o.FSTypes, ", "))
	}
	if err := checkMountFlags(capability); err != nil {
		return err
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
	return status.Errorf(codes.InvalidArgument, "access mode %s is not supported", mode)
}

// IsMultiNode reports whether a mode allows several nodes to use a volume at once.
func IsMultiNode(mode csi.VolumeCapability_AccessMode_Mode) bool {
	return mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
}

// IsReadOnly reports whether a capability is read-only, by its access mode or by the mount flag
// "ro".
func IsReadOnly(capability *csi.VolumeCapability) bool {
	mode := capability.GetAccessMode().GetMode()
	return mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY ||
		slices.Contains(MountFlags(capability), "ro")
}

// ControllerCapabilities returns the response of ControllerGetCapabilities.
func ControllerCapabilities(types ...csi.ControllerServiceCapability_RPC_Type) *csi.ControllerGetCapabilitiesResponse {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, each := range types {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: each}},
		})
	}
	return response
}

// NodeCapabilities returns the response of NodeGetCapabilities.
func NodeCapabilities(types ...csi.NodeServiceCapability_RPC_Type) *csi.NodeGetCapabilitiesResponse {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, each := range types {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: each}},
		})
	}
	return response
}
