package array

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// nodeService is the node service of one node. Its methods are CSI's. Each holds the array's mutex
// from its first read to its last change, so that concurrent calls for the same path cannot mount
// it twice.
type nodeService struct {
	csi.UnimplementedNodeServer
	array *Array
	id    string
	fs    *nodefs.Memory
}

func (n *nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	n.array.mu.Lock()
	defer n.array.mu.Unlock()
	return &csi.NodeGetInfoResponse{NodeId: n.id, MaxVolumesPerNode: int64(n.array.perNode)}, nil
}

func (n *nodeService) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return nodeCapabilities, nil
}

// SharesMessages declares that messages need not be copied: see csi.Direct.
func (n *nodeService) SharesMessages() {}

// nodeCapabilities is shared by all nodes; it is only read.
var nodeCapabilities = csireq.NodeCapabilities(
	csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
	csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
)

func (n *nodeService) NodeStageVolume(
	_ context.Context, request *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	if err := n.array.offer.CheckStage(request); err != nil {
		return nil, err
	}
	n.array.mu.Lock()
	defer n.array.mu.Unlock()
	v, attached, err := n.attached(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if disk := request.GetPublishContext()[diskKey]; disk != v.id {
		return nil, status.Errorf(codes.InvalidArgument,
			"publish_context has %s %q, the controller returned %q", diskKey, disk, v.id)
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		n.fs.SetDeviceBytes(v.id, v.tree, v.sizeBytes)
		return &csi.NodeStageVolumeResponse{}, csireq.StageDevice(n.fs, request.GetStagingTargetPath(), v.id,
			func(file string) error { return n.fs.MountDevice(v.id, file, false) })
	}
	readOnly := attached.readOnly || csireq.IsReadOnly(request.GetVolumeCapability())
	path := request.GetStagingTargetPath()
	staged, err := csireq.CheckStaged(n.fs, path, v.id, readOnly)
	if err != nil || staged {
		return &csi.NodeStageVolumeResponse{}, err
	}
	err = n.fs.MkdirAll(path)
	if err == nil {
		err = n.fs.MountTree(v.tree, v.id, path, readOnly)
	}
	if err == nil && (v.fsBytes == 0 || v.growsOnStage) {
		v.fsBytes, v.growsOnStage = v.sizeBytes, false
	}
	n.fs.SetTreeSize(v.tree, v.fsBytes)
	return &csi.NodeStageVolumeResponse{}, csireq.PathStatus(err)
}

func (n *nodeService) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if err := n.array.offer.CheckPublish(request); err != nil {
		return nil, err
	}
	n.array.mu.Lock()
	defer n.array.mu.Unlock()
	v, _, err := n.attached(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodePublishVolumeResponse{}, csireq.PublishDevice(n.fs, request, v.id)
	}
	return &csi.NodePublishVolumeResponse{}, csireq.Publish(n.fs, request, v.id)
}

func (n *nodeService) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := csireq.CheckUnpublish(request); err != nil {
		return nil, err
	}
	n.array.mu.Lock()
	defer n.array.mu.Unlock()
	return &csi.NodeUnpublishVolumeResponse{}, csireq.Unpublish(n.fs, request.GetTargetPath())
}

func (n *nodeService) NodeUnstageVolume(
	_ context.Context, request *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if err := csireq.CheckUnstage(request); err != nil {
		return nil, err
	}
	n.array.mu.Lock()
	defer n.array.mu.Unlock()
	return &csi.NodeUnstageVolumeResponse{}, csireq.Unstage(n.fs, request.GetStagingTargetPath())
}

// NodeGetVolumeStats returns bytes only: a volume in memory has no inodes. For a device only the
// size is known.
func (n *nodeService) NodeGetVolumeStats(
	_ context.Context, request *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := csireq.CheckStats(request); err != nil {
		return nil, err
	}
	n.array.mu.Lock()
	defer n.array.mu.Unlock()
	v, err := n.array.find(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	device, isDevice, err := csireq.DeviceAt(n.fs, request.GetVolumePath())
	if err != nil {
		return nil, csireq.NotFoundStatus(err, v.id, request.GetVolumePath())
	}
	if isDevice && device == v.id {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
			Unit:  csi.VolumeUsage_BYTES,
			Total: v.sizeBytes,
		}}}, nil
	}
	mount, mounted, err := csireq.MountAt(n.fs, request.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if !mounted || mount.Source != v.id {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", v.id, request.GetVolumePath())
	}
	used := v.tree.SizeBytes()
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: v.fsBytes, Used: used, Available: max(0, v.fsBytes-used),
	}}}, nil
}

// attached returns a volume and its attachment to this node. It returns NotFound if the volume does
// not exist, and FailedPrecondition if it is not attached here. The caller holds array.mu.
func (n *nodeService) attached(id string) (*volume, attachment, error) {
	v, err := n.array.find(id)
	if err != nil {
		return nil, attachment{}, err
	}
	here, ok := v.attached[n.id]
	if !ok {
		return nil, attachment{}, status.Errorf(codes.FailedPrecondition,
			"volume %s is not attached to node %s", id, n.id)
	}
	return v, here, nil
}
