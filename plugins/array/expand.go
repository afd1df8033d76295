package array

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
)

// ControllerExpandVolume increases the provisioned size. A file system follows on the node, by
// NodeExpandVolume; a block volume needs no further step. A size larger than the whole array is
// OutOfRange, one that exceeds the free capacity ResourceExhausted.
func (c *controller) ControllerExpandVolume(
	_ context.Context, request *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	a := c.array
	if err := a.offer.CheckControllerExpand(request); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v, err := a.find(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	size, err := csireq.Sizes{Max: a.capacityBytes}.Expand(v.sizeBytes, request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if free := a.freeBytes(); size-v.sizeBytes > free {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the array has %d bytes free, the volume needs %d more: delete volumes or give the array more capacity", free,
			size-v.sizeBytes)
	}
	v.sizeBytes = size
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: size, NodeExpansionRequired: request.GetVolumeCapability().GetBlock() == nil && v.fsBytes < size,
	}, nil
}

// NodeExpandVolume grows the file system to the size of the volume. A size larger than the
// provisioned one is OutOfRange.
func (n *nodeService) NodeExpandVolume(
	_ context.Context, request *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	a := n.array
	if err := a.offer.CheckNodeExpand(request); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v, err := a.find(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	device, isDevice, err := csireq.DeviceAt(n.fs, request.GetVolumePath())
	if err != nil {
		return nil, err
	}
	mount, mounted, err := csireq.MountAt(n.fs, request.GetVolumePath())
	if err != nil {
		return nil, err
	}
	switch {
	case isDevice && device == v.id:
	case !mounted || mount.Source != v.id:
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", v.id, request.GetVolumePath())
	}
	if err := csireq.CheckExpanded(v.id, v.sizeBytes, request.GetCapacityRange()); err != nil {
		return nil, err
	}
	if isDevice {
		n.fs.SetDeviceBytes(v.id, v.tree, v.sizeBytes)
	} else {
		v.fsBytes = v.sizeBytes
		n.fs.SetTreeSize(v.tree, v.fsBytes)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.sizeBytes}, nil
}
