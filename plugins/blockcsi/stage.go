package blockcsi

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	mountutils "k8s.io/mount-utils"

	"github.com/volsim/volsim/plugins/csireq"
)

const mebibyte = 1 << 20

// fsBytesMin are the sizes below which a file system's mkfs refuses or leaves no
// room: for ext4 with a journal 16 MiB is ours, for xfs 300 MiB is mkfs.xfs's,
// for btrfs 109 MiB is mkfs.btrfs's.
var fsBytesMin = map[string]int64{
	"ext2": 16 * mebibyte, "ext3": 16 * mebibyte, "ext4": 16 * mebibyte, "xfs": 300 * mebibyte, "btrfs": 128 * mebibyte,
}

// FSTypes are the file systems that a node service can make, sorted.
func FSTypes() []string { return slices.Sorted(maps.Keys(fsBytesMin)) }

// NodeStageVolume makes a file system on a volume that has none, which takes
// the time of a mkfs; when ctx ends meanwhile, a later call starts it anew. A file
// system of ext2 to ext4 that is smaller than the volume is grown before. Of a
// block volume it touches no byte.
func (n *nodeService) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	d, id := n.driver, request.GetVolumeId()
	if err := d.offer.CheckStage(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	attached, err := n.attachedToStage(ctx, request)
	if err != nil {
		return nil, err
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, n.stageDevice(request.GetStagingTargetPath(), attached.Device)
	}
	return &csi.NodeStageVolumeResponse{}, n.stageFileSystem(ctx, request, attached)
}

// attachedToStage returns how a volume that is to be staged is attached, and
// attaches it where that is the node's part.
func (n *nodeService) attachedToStage(ctx context.Context, request *csi.NodeStageVolumeRequest) (*Attachment, error) {
	d, id := n.driver, request.GetVolumeId()
	if d.cfg.NodeAttaches {
		volume, pool, err := d.find(ctx, id)
		if err != nil {
			return nil, err
		}
		attached, err := d.plugIn(ctx, pool, volume, n.id, csireq.IsReadOnly(request.GetVolumeCapability()))
		return &attached, err
	}
	_, attached, err := n.attached(ctx, id)
	if err != nil {
		return nil, err
	}
	if device := request.GetPublishContext()[DeviceKey]; device != attached.Device {
		return nil, status.Errorf(codes.InvalidArgument,
			"publish_context has %s %q, the volume is attached as %q", DeviceKey, device, attached.Device)
	}
	return attached, nil
}

func (n *nodeService) stageFileSystem(ctx context.Context, request *csi.NodeStageVolumeRequest, attached *Attachment) error {
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
	return n.mountStatus(ctx, request.GetVolumeId(), err)
}

// mountStatus is the status of an error of mounting: a file system that is not
// the one asked for, or is not there and cannot be made, FailedPrecondition. A
// tool that fails on a pool without room, whose words for it differ, is ResourceExhausted.
func (n *nodeService) mountStatus(ctx context.Context, id string, err error) error {
	var mountError mountutils.MountError
	if !errors.As(err, &mountError) {
		return csireq.PathStatus(err)
	}
	if volume, pool, findErr := n.driver.seek(ctx, id); findErr == nil {
		if room, roomErr := pool.Room(ctx, volume.Parameters); roomErr == nil && room.FreeBytes < mebibyte {
			return status.Errorf(codes.ResourceExhausted, "no room is left where volume %s lies: free some there, or delete volumes", id)
		}
	}
	if mountError.Type == mountutils.UnformattedReadOnly || mountError.Type == mountutils.FilesystemMismatch {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return csireq.PathStatus(err)
}

// stageDevice makes the node of a device be there.
func (n *nodeService) stageDevice(path, node string) error {
	device, err := n.fs.DeviceOf(node)
	if err != nil {
		return csireq.PathStatus(err)
	}
	return csireq.StageDevice(n.fs, path, device, func(file string) error { return n.fs.BindDevice(node, file, false) })
}

func (n *nodeService) NodeUnstageVolume(ctx context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	d, id := n.driver, request.GetVolumeId()
	if err := csireq.CheckUnstage(request); err != nil {
		return nil, err
	}
	if err := n.unstage(ctx, request); err != nil {
		return nil, err
	}
	if d.cfg.NodeAttaches {
		return &csi.NodeUnstageVolumeResponse{}, d.unplug(ctx, id, n.id)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (n *nodeService) unstage(ctx context.Context, request *csi.NodeUnstageVolumeRequest) error {
	unlock, err := n.driver.locks.lock(ctx, request.GetVolumeId())
	if err != nil {
		return err
	}
	defer unlock()
	return csireq.Unstage(n.fs, request.GetStagingTargetPath())
}
