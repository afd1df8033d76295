package loop

import (
	"context"
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
	), nil
}

// NodeStageVolume makes a file system on a volume that has none, which takes
// the time of a mkfs; when ctx ends meanwhile, a later call starts it anew.
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
	capability := request.GetVolumeCapability()
	path, options := request.GetStagingTargetPath(), slices.Clone(capability.GetMount().GetMountFlags())
	readOnly := attached.ReadOnly || csireq.IsReadOnly(capability)
	if readOnly {
		options = append(options, "ro")
	}
	staged, err := csireq.CheckStaged(n.fs, path, attached.Device, readOnly)
	if err != nil || staged {
		return &csi.NodeStageVolumeResponse{}, err
	}
	err = n.fs.MkdirAll(path)
	if err == nil {
		err = n.fs.FormatAndMount(ctx, attached.Device, path, capability.GetMount().GetFsType(), options)
	}
	return &csi.NodeStageVolumeResponse{}, d.status(err)
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
	return &csi.NodePublishVolumeResponse{}, csireq.Publish(n.fs, request, attached.Device)
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
	return &csi.NodeUnstageVolumeResponse{}, csireq.Unmount(n.fs, request.GetStagingTargetPath())
}

func (n *nodeService) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := csireq.CheckStats(request); err != nil {
		return nil, err
	}
	attached, err := n.attached(request.GetVolumeId())
	if err != nil && status.Code(err) != codes.FailedPrecondition {
		return nil, err
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
