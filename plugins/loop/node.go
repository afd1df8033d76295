package loop

import (
	"context"
	"os"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/plugins/csireq"
)

// nodeService is the node service of one node. Its methods are CSI's.
type nodeService struct {
	csi.UnimplementedNodeServer
	driver *Driver
	id     string
	fs     *nodefs.Real
}

func (n *nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.id}, nil
}

func (n *nodeService) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return csireq.NodeCapabilities(
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	), nil
}

// NodeStageVolume makes a file system on a volume that has none, which takes
// the time of a mkfs; when ctx ends meanwhile, a later call starts it anew. A file
// system of ext2 to ext4 that is smaller than the volume is grown before. Of a
// block volume it touches no byte.
func (n *nodeService) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	d := n.driver
	if err := d.offer.CheckStage(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	attached, err := n.attached(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if device := request.GetPublishContext()[DeviceKey]; device != attached.Device {
		return nil, status.Errorf(codes.InvalidArgument,
			"publish_context has %s %q, the volume is attached as %q", DeviceKey, device, attached.Device)
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, n.stageDevice(request.GetStagingTargetPath(), attached.Device)
	}
	return &csi.NodeStageVolumeResponse{}, n.stageFileSystem(ctx, request, attached)
}

func (n *nodeService) stageFileSystem(ctx context.Context, request *csi.NodeStageVolumeRequest, attached *attachment) error {
	capability := request.GetVolumeCapability()
	path, options := request.GetStagingTargetPath(), slices.Clone(capability.GetMount().GetMountFlags())
	readOnly := attached.ReadOnly || csireq.IsReadOnly(capability)
	if readOnly {
		options = append(options, "ro")
	}
	staged, err := csireq.CheckStaged(n.fs, path, attached.Device, readOnly)
	if err != nil || staged {
		return err
	}
	err = n.fs.MkdirAll(path)
	if err == nil && !readOnly {
		err = n.fs.GrowUnmounted(ctx, attached.Device)
	}
	if err == nil {
		err = n.fs.FormatAndMount(ctx, attached.Device, path, capability.GetMount().GetFsType(), options)
	}
	return n.driver.status(err)
}

// stageDevice makes the node of a loop device be there.
func (n *nodeService) stageDevice(path, node string) error {
	device, err := n.fs.DeviceOf(node)
	if err != nil {
		return n.driver.status(err)
	}
	return csireq.StageDevice(n.fs, path, device, func(file string) error { return n.fs.BindDevice(node, file, false) })
}

func (n *nodeService) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	d := n.driver
	if err := d.offer.CheckPublish(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	attached, err := n.attached(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if request.GetVolumeCapability().GetBlock() == nil {
		return &csi.NodePublishVolumeResponse{}, csireq.Publish(n.fs, request, attached.Device)
	}
	device, err := n.fs.DeviceOf(attached.Device)
	if err != nil {
		return nil, d.status(err)
	}
	return &csi.NodePublishVolumeResponse{}, csireq.PublishDevice(n.fs, request, device)
}

func (n *nodeService) NodeUnpublishVolume(ctx context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
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

func (n *nodeService) NodeUnstageVolume(ctx context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := csireq.CheckUnstage(request); err != nil {
		return nil, err
	}
	unlock, err := n.driver.locks.lock(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	return &csi.NodeUnstageVolumeResponse{}, csireq.Unstage(n.fs, request.GetStagingTargetPath())
}

func (n *nodeService) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := csireq.CheckStats(request); err != nil {
		return nil, err
	}
	attached, err := n.attached(request.GetVolumeId())
	if err != nil && status.Code(err) != codes.FailedPrecondition {
		return nil, err
	}
	if usage, err := n.deviceUsage(attached, request.GetVolumePath()); err != nil || usage != nil {
		return &csi.NodeGetVolumeStatsResponse{Usage: usage}, err
	}
	mount, mounted, err := csireq.MountAt(n.fs, request.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if attached == nil || !mounted || mount.Source != attached.Device {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s",
			request.GetVolumeId(), request.GetVolumePath())
	}
	usage, err := usageAt(request.GetVolumePath())
	if err != nil {
		return nil, n.driver.status(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

// deviceUsage is the size of an attached volume whose device's node is at a path;
// nil if it is not.
func (n *nodeService) deviceUsage(attached *attachment, path string) ([]*csi.VolumeUsage, error) {
	found, isDevice, err := csireq.DeviceAt(n.fs, path)
	if err != nil || !isDevice || attached == nil {
		return nil, err
	}
	device, err := n.fs.DeviceOf(attached.Device)
	if err != nil || device != found {
		return nil, n.driver.status(err)
	}
	info, err := os.Stat(attached.Backing)
	if err != nil {
		return nil, n.driver.status(err)
	}
	return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: info.Size()}}, nil
}

// attached returns how a volume is attached to this node: NotFound if the
// volume does not exist, FailedPrecondition if it is not attached here.
func (n *nodeService) attached(id string) (*attachment, error) {
	if _, err := n.driver.sizeOf(id); err != nil {
		return nil, err
	}
	found, err := n.driver.attachment(id)
	if err != nil {
		return nil, err
	}
	if found == nil || found.node != digest(n.id, nodeKeyDigits) {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not attached to node %s", id, n.id)
	}
	return found, nil
}
