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

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

const mebibyte = 1 << 20

// fsBytesMin are the minimum sizes of file systems. mkfs refuses a smaller one, leaves it no room,
// or the kernel does not grow it. 16 MiB for ext4 with a journal is our choice. 300 MiB is the
// minimum of mkfs.xfs. 256 MiB is the smallest size to which the kernel resizes btrfs.
var fsBytesMin = map[string]int64{
	"ext2": 16 * mebibyte, "ext3": 16 * mebibyte, "ext4": 16 * mebibyte, "xfs": 300 * mebibyte, "btrfs": 256 * mebibyte,
}

// fsTools are the programs that make and grow a file system and change the UUID of a copy.
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

// FSTypes returns the file systems whose tools are installed; the first is the default. If there
// are none, it returns ext4, and staging reports what is missing.
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

// NodeStageVolume formats an empty volume, which takes as long as mkfs. If ctx ends meanwhile, a
// later call starts again. A file system smaller than the volume grows. The file system of a copy
// is made distinct from its source. A block volume is not written to.
func (n *nodeService) NodeStageVolume(
	ctx context.Context, request *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
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

// attachForStaging returns a volume and its attachment. It attaches the volume if that is the
// node's task.
func (n *nodeService) attachForStaging(
	ctx context.Context, request *csi.NodeStageVolumeRequest,
) (Volume, *Attachment, error) {
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
			"publish_context has %s %q, but the volume is attached as %q", DeviceKey, device, attached.Device)
	}
	if attached.Device == "" { // the machine was restarted since
		again, err := d.attach(ctx, pool, volume, n.id, attached.ReadOnly)
		return volume, &again, err
	}
	return volume, attached, nil
}

func (n *nodeService) stageFileSystem(
	ctx context.Context, request *csi.NodeStageVolumeRequest, volume Volume, attached *Attachment,
) error {
	capability := request.GetVolumeCapability()
	path, options := request.GetStagingTargetPath(), csireq.MountFlags(capability)
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

// mount mounts a volume at a path without a mount.
func (n *nodeService) mount(
	ctx context.Context, volume Volume, attached *Attachment, path, fsType string, options []string,
) error {
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

// discardOptions returns the mount options that turn discarding on or off. It returns none if the
// class's mount options do so.
func discardOptions(fsType string, discard bool, given []string) []string {
	explicit := slices.ContainsFunc(given, func(option string) bool {
		return strings.HasPrefix(option, "discard") || option == "nodiscard"
	})
	switch {
	case explicit:
	case fsType == "btrfs" && discard:
		return []string{"discard=async"}
	case fsType == "btrfs":
		return []string{"nodiscard"}
	case discard && (fsType == "ext4" || fsType == "xfs"):
		return []string{"discard"}
	}
	return nil
}

// formatOptions returns the options that keep mkfs from discarding the blocks of a volume.
func formatOptions(fsType string, discard bool) []string {
	switch {
	case discard:
		return nil
	case fsType == "xfs" || fsType == "btrfs":
		return []string{"-K"}
	}
	return []string{"-E", "nodiscard"}
}

// makeDistinct allows a copy to be mounted together with its source, although their file systems
// have the same UUID. xfs gets a mount option, btrfs a new UUID.
func (n *nodeService) makeDistinct(
	ctx context.Context, volume Volume, attached *Attachment, super nodefs.Superblock, options []string,
) ([]string, error) {
	switch {
	case super.Type == "xfs":
		options = append(options, "nouuid")
		if attached.ReadOnly {
			// a frozen file system leaves a log that cannot be replayed on a read-only device
			options = append(options, "norecovery")
		}
	case super.Type != "btrfs":
	case !attached.ReadOnly:
		// Not from the ID alone: another pool may have a volume of that ID.
		sum := sha256.Sum256(append([]byte(volume.ID), super.OriginalUUID[:]...))
		return options, n.fs.SetUUID(ctx, attached.Device, [16]byte(sum[:]))
	case !mountsDuplicateUUIDs():
		return nil, status.Errorf(codes.FailedPrecondition,
			"volume %s is a copy with btrfs, which this kernel cannot distinguish from its source: "+
				"stage it writable once", volume.ID)
	}
	return options, nil
}

// growMounted grows a file system other than ext4, which only grows while mounted, to the size of
// its device. The copy may be larger than its source.
func (n *nodeService) growMounted(ctx context.Context, device, path string) error {
	super, err := nodefs.ReadSuperblock(device)
	if err != nil || super.Type == "ext4" || !super.CanGrow() {
		return err
	}
	return n.fs.Grow(ctx, device, path)
}

// mountStatus returns the status of a mount error. It is FailedPrecondition for a file system other
// than the requested one, or one that cannot be made. It is ResourceExhausted if a tool failed
// because the pool is full, since the messages of the tools differ.
func (n *nodeService) mountStatus(ctx context.Context, id string, err error) error {
	var mountError mountutils.MountError
	if !errors.As(err, &mountError) {
		return csireq.PathStatus(err)
	}
	if volume, pool, findErr := n.driver.lookup(ctx, id); findErr == nil {
		if capacity, roomErr := pool.Capacity(ctx, volume.Parameters); roomErr == nil && capacity.Location != "" &&
			capacity.FreeBytes < mebibyte {
			return status.Errorf(codes.ResourceExhausted,
				"no space left in %s, which stores volume %s: free some space there, or delete volumes",
				capacity.Location,
				id)
		}
	}
	if mountError.Type == mountutils.UnformattedReadOnly || mountError.Type == mountutils.FilesystemMismatch {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return csireq.PathStatus(err)
}

// stageDevice makes a device node visible at a path.
func (n *nodeService) stageDevice(path, node string) error {
	device, err := n.fs.DeviceOf(node)
	if err != nil {
		return csireq.PathStatus(err)
	}
	return csireq.StageDevice(n.fs, path, device, func(file string) error { return n.fs.BindDevice(node, file, false) })
}

func (n *nodeService) NodeUnstageVolume(
	ctx context.Context, request *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
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
