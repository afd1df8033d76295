package loop

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs/loopdev"
	"github.com/volsim/volsim/plugins/csireq"
)

// controller is the controller service. Its methods are CSI's.
type controller struct {
	csi.UnimplementedControllerServer
	driver *Driver
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return csireq.ControllerCapabilities(
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	), nil
}

func (c *controller) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d := c.driver
	if err := d.offer.CheckCreate(request); err != nil {
		return nil, err
	}
	wanted := request.GetCapacityRange()
	size, err := sizesFor(request.GetVolumeCapabilities()).Choose(wanted)
	if err != nil {
		return nil, err
	}
	id := csireq.VolumeID(request.GetName())
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	has, err := d.sizeOf(id)
	switch {
	case status.Code(err) == codes.NotFound:
		err = d.makeImage(id, size)
	case err == nil:
		size = has
		err = csireq.CheckExisting(request.GetName(), has, wanted)
	}
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: size}}, nil
}

func (c *controller) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if err := csireq.VolumeNamed(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := d.sizeOf(id); status.Code(err) == codes.NotFound {
		return &csi.DeleteVolumeResponse{}, nil
	}
	attached, err := d.attachment(id)
	if err != nil {
		return nil, err
	}
	if attached != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s as %s",
			id, d.nodeName(attached.node), attached.Device)
	}
	if err := os.Remove(d.image(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.status(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) ControllerPublishVolume(ctx context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if err := d.offer.CheckControllerPublish(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := d.sizeOf(id); err != nil {
		return nil, err
	}
	if !d.knows(request.GetNodeId()) {
		return nil, status.Errorf(codes.NotFound, "no node %q on this machine", request.GetNodeId())
	}
	device, err := d.plugIn(ctx, request)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{DeviceKey: device}}, nil
}

// plugIn returns the device of a volume on a node, attached now or before.
func (d *Driver) plugIn(ctx context.Context, request *csi.ControllerPublishVolumeRequest) (string, error) {
	id, node := request.GetVolumeId(), request.GetNodeId()
	readOnly := request.GetReadonly() || csireq.IsReadOnly(request.GetVolumeCapability())
	attached, err := d.attachment(id)
	switch {
	case err != nil:
		return "", err
	case attached == nil:
		device, err := loopdev.Bind(ctx, d.image(id), d.mark(id, node), readOnly)
		return device, d.status(err)
	case attached.node != digest(node, nodeKeyDigits):
		return "", status.Errorf(codes.FailedPrecondition, "volume %s is for one node and attached to %s as %s",
			id, d.nodeName(attached.node), attached.Device)
	case attached.ReadOnly != readOnly:
		return "", status.Errorf(codes.AlreadyExists, "volume %s is attached to %s as %s, read-only: %v",
			id, node, attached.Device, attached.ReadOnly)
	}
	return attached.Device, nil
}

func (c *controller) ControllerUnpublishVolume(ctx context.Context, request *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if err := csireq.VolumeNamed(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	attached, err := d.attachment(id)
	if err != nil {
		return nil, err
	}
	node := request.GetNodeId()
	if attached != nil && (node == "" || attached.node == digest(node, nodeKeyDigits)) {
		if err := d.detach(ctx, attached.Bound); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := csireq.CheckValidate(request); err != nil {
		return nil, err
	}
	if _, err := c.driver.sizeOf(request.GetVolumeId()); err != nil {
		return nil, err
	}
	return c.driver.offer.Validate(request), nil
}

// ListVolumes may miss or still show a volume that is made or deleted meanwhile.
func (c *controller) ListVolumes(_ context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d := c.driver
	ids, err := d.imageIDs()
	if err != nil {
		return nil, err
	}
	ids, next, err := csireq.Page(ids, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	loops, err := loopdev.List(d.isImage)
	if err != nil {
		return nil, d.status(err)
	}
	nodes := map[string][]string{} // by the volume's file
	for _, each := range loops {
		for _, id := range ids {
			if key, ours := d.nodeKey(each.Mark, id); ours && each.Backing == d.image(id) {
				nodes[each.Backing] = append(nodes[each.Backing], d.nodeName(key))
			}
		}
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, id := range ids {
		size, err := d.sizeOf(id)
		if err != nil {
			continue // deleted since
		}
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: id, CapacityBytes: size},
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: nodes[d.image(id)]},
		})
	}
	return response, nil
}

// GetCapacity returns what is free below Dir. A larger volume can be made, thin
// as it is, but not filled.
func (c *controller) GetCapacity(_ context.Context, request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	d := c.driver
	if wanted := request.GetVolumeCapabilities(); len(wanted) > 0 && d.offer.Check(wanted...) != nil {
		return &csi.GetCapacityResponse{}, nil // no room for what is not offered
	}
	free, err := freeBytes(d.dir)
	if err != nil {
		return nil, d.status(err)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}
