package blockcsi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// The requests by which a file system is frozen and thawed: linux/fs.h, not in
// package unix.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// frozen is a file system that is frozen. The file in it keeps it from being
// unmounted, so that it is the one that is thawed.
type frozen struct{ file *os.File }

// freezeDevice freezes the file system on a device; false if it is not mounted
// where this process sees it. One that is frozen already is errFrozen.
func freezeDevice(device string) (held *frozen, mounted bool, err error) {
	rows, err := mountsOf(device)
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	file, err := openOneOf(rows)
	if err != nil {
		return nil, true, err
	}
	err = unix.IoctlSetInt(int(file.Fd()), fiFreeze, 0)
	if err == nil {
		return &frozen{file: file}, true, nil
	}
	file.Close()
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: by a driver that was killed (start it again), or by hand (fsfreeze -u %s)", errFrozen, file.Name())
	}
	return nil, true, err
}

// thaw ends the freezing. One that somebody else has thawed is fine.
func (f *frozen) thaw() error {
	defer f.file.Close()
	err := unix.IoctlSetInt(int(f.file.Fd()), fiThaw, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s stays frozen (fsfreeze -u %s thaws it): %w", f.file.Name(), f.file.Name(), err)
	}
	return nil
}

// thawDevice thaws the file system on a device; false if it was not frozen, or
// is not mounted.
func thawDevice(device string) (bool, error) {
	rows, err := mountsOf(device)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	file, err := openOneOf(rows)
	if err != nil {
		return false, fmt.Errorf("thaw %s: %w", device, err)
	}
	defer file.Close()
	err = unix.IoctlSetInt(int(file.Fd()), fiThaw, 0)
	if errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return err == nil, err
}

// openOneOf opens the root of one of several mounts. Another mount may lie over
// some of them: what is opened is compared.
func openOneOf(rows []*mountinfo.Info) (*os.File, error) {
	var failed error
	for _, row := range rows {
		file, err := os.Open(row.Mountpoint)
		if err != nil {
			failed = err
			continue
		}
		var info unix.Statx_t
		err = unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &info)
		if err == nil && info.Mnt_id == uint64(row.ID) {
			return file, nil
		}
		file.Close()
		failed = fmt.Errorf("something else is mounted over %s", row.Mountpoint)
	}
	return nil, failed
}

// flushDevice writes what the kernel holds of a device to it.
func flushDevice(device string) error {
	node, err := os.Open(device)
	if err != nil {
		return err
	}
	defer node.Close()
	return node.Sync()
}

// isOpen tells whether a device that this process does not see mounted is in use:
// its node is bound somewhere, as that of a block volume is for a pod, or it is
// mounted in another mount namespace.
func isOpen(device string) (bool, error) {
	node, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer node.Close()
	number, err := numberOf(device)
	if err != nil {
		return false, err
	}
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		at, err := numberOf(row.Mountpoint)
		return err != nil || at != number, false
	})
	return len(rows) > 0, err
}

// numberOf returns which device a device node is of; a node of none is an error.
func numberOf(node string) (uint64, error) {
	var info unix.Stat_t
	if err := unix.Stat(node, &info); err != nil {
		return 0, fmt.Errorf("stat %s: %w", node, err)
	}
	if info.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, fmt.Errorf("%s is not a block device", node)
	}
	return uint64(info.Rdev), nil
}

// MountPoints returns where a device is mounted, as this process sees it.
func MountPoints(device string) ([]string, error) {
	rows, err := mountsOf(device)
	var places []string
	for _, row := range rows {
		places = append(places, filepath.Clean(row.Mountpoint))
	}
	return places, err
}

// mountsOf returns the mounts of the file system on a device. That of btrfs has
// a number of its own, and is known by the device's name.
func mountsOf(device string) ([]*mountinfo.Info, error) {
	number, err := numberOf(device)
	if err != nil {
		return nil, err
	}
	major, minor := int(unix.Major(number)), int(unix.Minor(number))
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		if row.FSType == "btrfs" {
			source, err := numberOf(row.Source)
			return err != nil || source != number, false
		}
		return row.Major != major || row.Minor != minor, false
	})
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return rows, nil
}

// usageAt returns the use of the file system at a path, in bytes and inodes.
func usageAt(path string) ([]*csi.VolumeUsage, error) {
	var info unix.Statfs_t
	if err := unix.Statfs(path, &info); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", path, err)
	}
	return []*csi.VolumeUsage{
		{
			Unit:      csi.VolumeUsage_BYTES,
			Total:     int64(info.Blocks) * int64(info.Bsize),
			Used:      int64(info.Blocks-info.Bfree) * int64(info.Bsize),
			Available: int64(info.Bavail) * int64(info.Bsize),
		},
		{
			Unit:      csi.VolumeUsage_INODES,
			Total:     int64(info.Files),
			Used:      int64(info.Files - info.Ffree),
			Available: int64(info.Ffree),
		},
	}, nil
}

// mountsTwins tells whether the kernel mounts two file systems of btrfs that have
// one UUID (Linux 6.7).
func mountsTwins() bool {
	_, err := os.Stat("/sys/fs/btrfs/features/temp_fsid")
	return err == nil
}
