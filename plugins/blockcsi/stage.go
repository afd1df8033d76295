package blockcsi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	mountutils "k8s.io/mount-utils"

	"github.com/volsim/volsim/plugins/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

const mebibyte = 1 << 20

// fsBytesMin are the sizes below which a file system's mkfs refuses or leaves no
// room, or the kernel does not let it grow: for ext4 with a journal 16 MiB is ours,
// for xfs 300 MiB is mkfs.xfs's, for btrfs 256 MiB is the kernel's, which resizes
// none to less.
var fsBytesMin = map[string]int64{
	"ext2": 16 * mebibyte, "ext3": 16 * mebibyte, "ext4": 16 * mebibyte, "xfs": 300 * mebibyte, "btrfs": 256 * mebibyte,
}

// fsTools are what making a file system, growing it, and telling a copy of it
// from it take.
var fsTools = []struct {
	name  string
	tools []string
}{
	{"ext4", []string{"mkfs.ext4", "e2fsck", "resize2fs"}},
	{"xfs", []string{"mkfs.xfs", "xfs_growfs"}},
	{"btrfs", []string{"mkfs.btrfs", "btrfs", "btrfstune"}},
	{"ext3", []string{"mkfs.ext3", "e2fsck", "resize2fs"}},
	{"ext2", []string{"mkfs.ext2", "e2fsck", "resize2fs"}},
}

// FSTypes are the file systems whose tools are installed here; the first is the
// default. Where there are none, it is ext4, and staging says what is missing.
func FSTypes() []string {
	var found []string
	for _, each := range fsTools {
		missing := slices.ContainsFunc(each.tools, func(tool string) bool {
			_, err := exec.LookPath(tool)
			return err != nil
		})
		if !missing {
			found = append(found, each.name)
		}
	}
	if len(found) == 0 {
		found = []string{"ext4"}
	}
	return found
}

// NodeStageVolume makes a file system on a volume that has none, which takes
// the time of a mkfs; when ctx ends meanwhile, a later call starts it anew. A file
// system that is smaller than the volume grows, and one that is a copy is told from
// what it was copied from. Of a block volume it touches no byte.
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
	volume, attached, err := n.attachForStaging(ctx, request)
	if err != nil {
		return nil, err
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, n.stageDevice(request.GetStagingTargetPath(), attached.Device)
	}
	return &csi.NodeStageVolumeResponse{}, n.stageFileSystem(ctx, request, volume, attached)
}

// attachForStaging returns a volume that is to be staged and how it is attached,
// and attaches it where that is the node's part.
func (n *nodeService) attachForStaging(ctx context.Context, request *csi.NodeStageVolumeRequest) (Volume, *Attachment, error) {
	d, id := n.driver, request.GetVolumeId()
	if d.cfg.NodeAttaches {
		volume, pool, err := d.find(ctx, id)
		if err != nil {
			return Volume{}, nil, err
		}
		attached, err := d.attach(ctx, pool, volume, n.id, csireq.IsReadOnly(request.GetVolumeCapability()))
		return volume, &attached, err
	}
	volume, pool, attached, err := n.attachment(ctx, id)
	if err != nil {
		return Volume{}, nil, err
	}
	device := request.GetPublishContext()[DeviceKey]
	if device == "" || (device != attached.Device && !pool.Capabilities().PersistentAttach) {
		return Volume{}, nil, status.Errorf(codes.InvalidArgument,
			"publish_context has %s %q, the volume is attached as %q", DeviceKey, device, attached.Device)
	}
	if attached.Device == "" { // the machine was started again since
		again, err := d.attach(ctx, pool, volume, n.id, attached.ReadOnly)
		return volume, &again, err
	}
	return volume, attached, nil
}

func (n *nodeService) stageFileSystem(ctx context.Context, request *csi.NodeStageVolumeRequest, volume Volume, attached *Attachment) error {
	capability := request.GetVolumeCapability()
	path, options := request.GetStagingTargetPath(), slices.Clone(capability.GetMount().GetMountFlags())
	readOnly := attached.ReadOnly || csireq.IsReadOnly(capability)
	if readOnly && !slices.Contains(options, "ro") {
		options = append(options, "ro")
	}
	staged, err := csireq.CheckStaged(n.fs, path, attached.Device, readOnly)
	if err != nil {
		return err
	}
	if !staged {
		fsType := cmp.Or(capability.GetMount().GetFsType(), n.driver.caps.FSTypes[0])
		if err := n.mount(ctx, volume, attached, path, fsType, options); err != nil {
			return n.mountStatus(ctx, volume.ID, err)
		}
	}
	if readOnly {
		return nil
	}
	return csireq.PathStatus(n.growMounted(ctx, attached.Device, path))
}

// mount mounts a volume where nothing is mounted yet.
func (n *nodeService) mount(ctx context.Context, volume Volume, attached *Attachment, path, fsType string, options []string) error {
	super, err := nodefs.ReadSuperblock(attached.Device)
	if err != nil {
		return err
	}
	if volume.Source != "" {
		if options, err = n.makeDistinct(ctx, volume, attached, super, options); err != nil {
			return err
		}
	}
	if err := n.fs.MkdirAll(path); err != nil {
		return err
	}
	if !slices.Contains(options, "ro") && super.Type == "ext4" && super.CanGrow() {
		if err := n.fs.GrowUnmounted(ctx, attached.Device); err != nil {
			return err
		}
	}
	if !slices.Contains(options, "ro") {
		options = append(options, discardOptions(fsType, volume.Discard, options)...)
	}
	return n.fs.FormatWithAndMount(ctx, attached.Device, path, fsType, options, formatOptions(fsType, volume.Discard))
}

// discardOptions are the mount options for a volume's file system to discard what
// it frees, or not to; none where the class's mount options say it.
func discardOptions(fsType string, discard bool, given []string) []string {
	said := slices.ContainsFunc(given, func(option string) bool {
		return strings.HasPrefix(option, "discard") || option == "nodiscard"
	})
	switch {
	case said:
	case fsType == "btrfs" && discard:
		return []string{"discard=async"}
	case fsType == "btrfs":
		return []string{"nodiscard"}
	case discard && (fsType == "ext4" || fsType == "xfs"):
		return []string{"discard"}
	}
	return nil
}

// formatOptions keep a mkfs from giving back the blocks of a volume that is to keep them.
func formatOptions(fsType string, discard bool) []string {
	switch {
	case discard:
		return nil
	case fsType == "xfs" || fsType == "btrfs":
		return []string{"-K"}
	}
	return []string{"-E", "nodiscard"}
}

// makeDistinct lets a copy be mounted beside what it was copied from, whose UUID its
// file system has: xfs by an option, btrfs by giving it one of its own.
func (n *nodeService) makeDistinct(ctx context.Context, volume Volume, attached *Attachment, super nodefs.Superblock, options []string) ([]string, error) {
	switch {
	case super.Type == "xfs":
		options = append(options, "nouuid")
		if attached.ReadOnly {
			options = append(options, "norecovery") // what freezing leaves in the log cannot be read back from a device that cannot be written
		}
	case super.Type != "btrfs":
	case !attached.ReadOnly:
		// Not of the ID alone: there may be a volume of this name in another pool.
		sum := sha256.Sum256(append([]byte(volume.ID), super.OriginalUUID[:]...))
		return options, n.fs.SetUUID(ctx, attached.Device, [16]byte(sum[:]))
	case !mountsDuplicateUUIDs():
		return nil, status.Errorf(codes.FailedPrecondition,
			"volume %s is a copy with btrfs on it, which this kernel takes for the same as its source: mount it once where it can be written", volume.ID)
	}
	return options, nil
}

// growMounted lets a file system that grows only where it is mounted have all of
// its device: that of a copy that is larger than its source.
func (n *nodeService) growMounted(ctx context.Context, device, path string) error {
	super, err := nodefs.ReadSuperblock(device)
	if err != nil || super.Type == "ext4" || !super.CanGrow() {
		return err
	}
	return n.fs.Grow(ctx, device, path)
}

// mountStatus is the status of an error of mounting: a file system that is not
// the one asked for, or is not there and cannot be made, FailedPrecondition. A
// tool that fails on a pool without room, whose words for it differ, is ResourceExhausted.
func (n *nodeService) mountStatus(ctx context.Context, id string, err error) error {
	var mountError mountutils.MountError
	if !errors.As(err, &mountError) {
		return csireq.PathStatus(err)
	}
	if volume, pool, findErr := n.driver.lookup(ctx, id); findErr == nil {
		if room, roomErr := pool.Capacity(ctx, volume.Parameters); roomErr == nil && room.Location != "" && room.FreeBytes < mebibyte {
			return status.Errorf(codes.ResourceExhausted, "no space left in %s, where volume %s lies: free some there, or delete volumes", room.Location, id)
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
		return &csi.NodeUnstageVolumeResponse{}, d.detach(ctx, id, n.id)
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
