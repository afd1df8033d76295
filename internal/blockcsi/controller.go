package blockcsi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
)

// controller implements CSI's controller service.
type controller struct {
	csi.UnimplementedControllerServer
	driver *Driver
}

func (c *controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	types := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	}
	if !c.driver.cfg.NodeAttaches {
		types = append(types,
			csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
			csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	}
	if c.driver.caps.CanCopy {
		types = append(types,
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
			csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
			csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
			csi.ControllerServiceCapability_RPC_CLONE_VOLUME)
	}
	if len(c.driver.caps.Settings) > 0 {
		types = append(types, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	return csireq.ControllerCapabilities(types...), nil
}

func (c *controller) DeleteVolume(
	ctx context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	if !csireq.IsVolumeID(request.GetVolumeId()) {
		return &csi.DeleteVolumeResponse{}, nil // not one of ours
	}
	return &csi.DeleteVolumeResponse{}, c.driver.remove(ctx, request.GetVolumeId())
}

// remove removes a volume or a snapshot, if it exists.
func (d *Driver) remove(ctx context.Context, id string) error {
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return d.removeLocked(ctx, id, false)
}

// removeLocked works like remove for a volume that the caller has locked. If member is set, it may
// be a snapshot of a group.
func (d *Driver) removeLocked(ctx context.Context, id string, member bool) error {
	volume, pool, err := d.lookup(ctx, id)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if volume.Group != "" && !member {
		return status.Errorf(codes.InvalidArgument, "snapshot %s belongs to group %s: delete the group", id,
			volume.Group)
	}
	attached, err := pool.Attachment(ctx, volume)
	if err != nil {
		return csireq.PathStatus(err)
	}
	if attached != nil {
		return status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", id, attached.location())
	}
	if err := pool.Delete(ctx, volume); err != nil {
		return csireq.PathStatus(err)
	}
	d.forget(id)
	return nil
}

func (c *controller) ControllerPublishVolume(
	ctx context.Context, request *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if d.cfg.NodeAttaches {
		return nil, status.Error(codes.Unimplemented, "volumes are attached by the node service during staging")
	}
	if err := d.offer.CheckControllerPublish(request); err != nil {
		return nil, err
	}
	volume, pool, unlock, err := d.lockAndFind(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !d.hasNode(request.GetNodeId()) {
		return nil, status.Errorf(codes.NotFound, "no node %q on this machine", request.GetNodeId())
	}
	readOnly := request.GetReadonly() || csireq.IsReadOnly(request.GetVolumeCapability())
	attached, err := d.attach(ctx, pool, volume, request.GetNodeId(), readOnly)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{DeviceKey: attached.Device}}, nil
}

// attach attaches a volume to a node, unless it is attached there already.
func (d *Driver) attach(ctx context.Context, pool Pool, volume Volume, node string, readOnly bool) (Attachment, error) {
	if pool.Node() != "" && pool.Node() != node {
		return Attachment{}, status.Errorf(codes.FailedPrecondition,
			"volume %s is on node %s and can only be attached there", volume.ID, pool.Node())
	}
	attached, err := pool.Attachment(ctx, volume)
	switch {
	case err != nil:
		return Attachment{}, csireq.PathStatus(err)
	case attached != nil && attached.Node != node:
		return Attachment{}, status.Errorf(codes.FailedPrecondition,
			"volume %s is for a single node and attached to %s", volume.ID, attached.location())
	case attached != nil && attached.ReadOnly != readOnly:
		return Attachment{}, status.Errorf(codes.AlreadyExists, "volume %s is attached to %s with read-only %v",
			volume.ID, attached.location(), attached.ReadOnly)
	case attached != nil && attached.Device != "":
		return *attached, nil
	case volume.Trouble != "":
		return Attachment{}, status.Errorf(codes.Unavailable, "volume %s: %s", volume.ID, volume.Trouble)
	}
	made, err := pool.Attach(ctx, volume, node, readOnly)
	return made, csireq.PathStatus(err)
}

func (c *controller) ControllerUnpublishVolume(
	ctx context.Context, request *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	d := c.driver
	if d.cfg.NodeAttaches {
		return nil, status.Error(codes.Unimplemented, "volumes are detached by the node service during unstaging")
	}
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, d.detach(ctx, request.GetVolumeId(), request.GetNodeId())
}

// detach detaches a volume from a node; "" means any. A volume that is missing, or attached
// elsewhere, is not an error.
func (d *Driver) detach(ctx context.Context, id, node string) error {
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	volume, pool, err := d.lookup(ctx, id)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	attached, err := pool.Attachment(ctx, volume)
	if err != nil || attached == nil || (node != "" && attached.Node != node) {
		return csireq.PathStatus(err)
	}
	return csireq.PathStatus(pool.Detach(ctx, *attached))
}

func (c *controller) ValidateVolumeCapabilities(
	ctx context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := csireq.CheckValidate(request); err != nil {
		return nil, err
	}
	if _, _, err := c.driver.find(ctx, request.GetVolumeId()); err != nil {
		return nil, err
	}
	return c.driver.offer.Validate(request), nil
}

// ControllerExpandVolume grows the volume and its attached device. NodeExpandVolume grows the file
// system.
func (c *controller) ControllerExpandVolume(
	ctx context.Context, request *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if err := d.offer.CheckControllerExpand(request); err != nil {
		return nil, err
	}
	volume, pool, unlock, err := d.lockAndFind(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	size, err := pool.Sizes(volume.Parameters).Expand(volume.SizeBytes, request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if err := pool.Extend(ctx, volume, size); err != nil {
		return nil, csireq.PathStatus(err)
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: size, NodeExpansionRequired: request.GetVolumeCapability().GetBlock() == nil,
	}, nil
}

// ControllerModifyVolume changes settings of a volume; other settings stay unchanged.
func (c *controller) ControllerModifyVolume(
	ctx context.Context, request *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if len(d.caps.Settings) == 0 {
		return nil, status.Error(codes.Unimplemented, "volumes cannot be modified")
	}
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	volume, pool, unlock, err := d.lockAndFind(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := pool.ValidateParameters(nil, request.GetMutableParameters()); err != nil {
		return nil, err
	}
	settings := mergeSettings(volume.Settings, request.GetMutableParameters())
	return &csi.ControllerModifyVolumeResponse{}, csireq.PathStatus(pool.Modify(ctx, volume, settings))
}
