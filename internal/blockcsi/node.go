package blockcsi

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/plugins/nodefs"
)

// nodeService implements CSI's node service for one node.
type nodeService struct {
	csi.UnimplementedNodeServer
	driver *Driver
	id     string
	fs     *nodefs.Real
}

func (n *nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.id, AccessibleTopology: n.driver.segment(n.id)}, nil
}

func (n *nodeService) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	types := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	}
	if n.driver.cfg.MountGroup {
		types = append(types, csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	}
	return csireq.NodeCapabilities(types...), nil
}

func (n *nodeService) NodePublishVolume(
	ctx context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	d := n.driver
	if err := d.offer.CheckPublish(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	_, attached, err := n.attached(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if request.GetVolumeCapability().GetBlock() == nil {
		return &csi.NodePublishVolumeResponse{}, n.publish(ctx, request, attached)
	}
	device, err := n.fs.DeviceOf(attached.Device)
	if err != nil {
		return nil, csireq.PathStatus(err)
	}
	return &csi.NodePublishVolumeResponse{}, csireq.PublishDevice(n.fs, request, device)
}

// publish publishes a volume that is staged as a file system, after applying the pod's group.
func (n *nodeService) publish(ctx context.Context, request *csi.NodePublishVolumeRequest, attached *Attachment) error {
	group, given, err := n.mountGroup(request.GetVolumeCapability())
	if err != nil {
		return err
	}
	staged, isStaged, err := csireq.MountAt(n.fs, request.GetStagingTargetPath())
	if err != nil {
		return err
	}
	readOnly := request.GetReadonly() || csireq.IsReadOnly(request.GetVolumeCapability())
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	if given && isStaged && staged.Source == attached.Device && !staged.ReadOnly &&
		ownership.NeedsChange(n.fs, staged.Path, group, &onMismatch, readOnly) {
		if err := ownership.Apply(ctx, n.fs, staged.Path, group, readOnly, new(atomic.Int64)); err != nil {
			return csireq.PathStatus(err)
		}
	}
	return csireq.Publish(n.fs, request, attached.Device)
}

// mountGroup returns the group that owns the volume; given is false if there is none.
func (n *nodeService) mountGroup(capability *csi.VolumeCapability) (group int64, given bool, err error) {
	text := capability.GetMount().GetVolumeMountGroup()
	if text == "" || !n.driver.cfg.MountGroup {
		return 0, false, nil
	}
	group, err = strconv.ParseInt(text, 10, 32)
	if err != nil || group < 0 {
		return 0, false, status.Errorf(codes.InvalidArgument, "volume_mount_group: %q is not a group ID", text)
	}
	return group, true, nil
}

func (n *nodeService) NodeUnpublishVolume(
	ctx context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := csireq.CheckUnpublish(request); err != nil {
		return nil, err
	}
	unlock, err := n.driver.locks.lock(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	return &csi.NodeUnpublishVolumeResponse{}, csireq.Unpublish(n.fs, request.GetTargetPath())
}

func (n *nodeService) NodeGetVolumeStats(
	ctx context.Context, request *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := csireq.CheckStats(request); err != nil {
		return nil, err
	}
	volume, attached, err := n.attached(ctx, request.GetVolumeId())
	if err != nil && status.Code(err) != codes.FailedPrecondition {
		return nil, err
	}
	usage, err := n.deviceUsage(volume, attached, request.GetVolumePath())
	if err != nil {
		return nil, csireq.NotFoundStatus(err, request.GetVolumeId(), request.GetVolumePath())
	}
	if usage != nil {
		return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
	}
	mount, mounted, err := csireq.MountAt(n.fs, request.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if attached == nil || !mounted || mount.Source != attached.Device {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s",
			request.GetVolumeId(), request.GetVolumePath())
	}
	usage, err = usageAt(request.GetVolumePath())
	if err != nil {
		return nil, csireq.PathStatus(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

// deviceUsage returns the size of an attached volume if its device node is at path, or else nil.
func (n *nodeService) deviceUsage(volume Volume, attached *Attachment, path string) ([]*csi.VolumeUsage, error) {
	found, isDevice, err := csireq.DeviceAt(n.fs, path)
	if err != nil || !isDevice || attached == nil {
		return nil, err
	}
	device, err := n.fs.DeviceOf(attached.Device)
	if err != nil || device != found {
		return nil, csireq.PathStatus(err)
	}
	return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: volume.SizeBytes}}, nil
}

// attached returns a volume and its attachment to this node. It returns NotFound if the volume does
// not exist, and FailedPrecondition if it is not attached here or has no device.
func (n *nodeService) attached(ctx context.Context, id string) (Volume, *Attachment, error) {
	volume, _, found, err := n.attachment(ctx, id)
	if err == nil && found.Device == "" {
		return volume, nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s: stage it again", id,
			found.location())
	}
	return volume, found, err
}

// attachment works like attached for a volume that may have no device; it also returns the pool.
func (n *nodeService) attachment(ctx context.Context, id string) (Volume, Pool, *Attachment, error) {
	volume, pool, err := n.driver.find(ctx, id)
	if err != nil {
		return Volume{}, nil, nil, err
	}
	found, err := pool.Attachment(ctx, volume)
	if err != nil {
		return volume, nil, nil, csireq.PathStatus(err)
	}
	if found == nil || found.Node != n.id {
		return volume, nil, nil, status.Errorf(codes.FailedPrecondition, "volume %s is not attached to node %s", id,
			n.id)
	}
	return volume, pool, found, nil
}

// NodeExpandVolume grows the file system to the size of the volume. If the volume is smaller than
// requested, it returns OutOfRange. If this process may not grow the file system while it is
// mounted, it returns FailedPrecondition. The file system then grows when the volume is staged the
// next time.
func (n *nodeService) NodeExpandVolume(
	ctx context.Context, request *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	d, id := n.driver, request.GetVolumeId()
	if err := d.offer.CheckNodeExpand(request); err != nil {
		return nil, err
	}
	volume, pool, unlock, err := d.lockAndFind(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := csireq.CheckExpanded(id, volume.SizeBytes, request.GetCapacityRange()); err != nil {
		return nil, err
	}
	if err := pool.Extend(ctx, volume, volume.SizeBytes); err != nil { // the device may be smaller
		return nil, csireq.PathStatus(err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: volume.SizeBytes}, n.grow(ctx, id, request.GetVolumePath())
}

// grow grows the file system at a path. A device has grown already.
func (n *nodeService) grow(ctx context.Context, id, path string) error {
	_, attached, err := n.attached(ctx, id)
	if err != nil {
		return err
	}
	mount, mounted, err := csireq.MountAt(n.fs, path)
	if err != nil {
		return err
	}
	if !mounted || mount.Source != attached.Device {
		_, isDevice, err := csireq.DeviceAt(n.fs, path)
		if err == nil && !isDevice {
			err = status.Errorf(codes.NotFound, "volume %s is not mounted at %s", id, path)
		}
		return err
	}
	err = n.fs.Grow(ctx, attached.Device, path)
	if errors.Is(err, nodefs.ErrGrowMounted) {
		return status.Errorf(codes.FailedPrecondition, "%v: it grows when the volume is staged the next time", err)
	}
	return csireq.PathStatus(err)
}
