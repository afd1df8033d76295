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

// freezeAt freezes the file system mounted at a place. One that is frozen is fine.
func freezeAt(place string) error {
	return ignore(unix.EBUSY, requestAt(place, fiFreeze))
}

// thawAt ends freezeAt. One that is not frozen is fine.
func thawAt(place string) error {
	return ignore(unix.EINVAL, requestAt(place, fiThaw))
}

func requestAt(place string, request uint) error {
	directory, err := os.Open(place)
	if err != nil {
		return err
	}
	defer directory.Close()
	return unix.IoctlSetInt(int(directory.Fd()), request, 0)
}

func ignore(what, err error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
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

// isOpen tells whether a device that is not mounted is in use: its node is bound
// somewhere, as that of a block volume is for a pod.
func isOpen(device string) (bool, error) {
	var info unix.Stat_t
	if err := unix.Stat(device, &info); err != nil {
		return false, fmt.Errorf("stat %s: %w", device, err)
	}
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		var at unix.Stat_t
		same := unix.Stat(row.Mountpoint, &at) == nil && at.Mode&unix.S_IFMT == unix.S_IFBLK && at.Rdev == info.Rdev
		return !same, false
	})
	return len(rows) > 0, err
}

// MountPoints returns where a device is mounted, as this process sees it.
func MountPoints(device string) ([]string, error) {
	var info unix.Stat_t
	if err := unix.Stat(device, &info); err != nil {
		return nil, fmt.Errorf("stat %s: %w", device, err)
	}
	major, minor := int(unix.Major(uint64(info.Rdev))), int(unix.Minor(uint64(info.Rdev)))
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		return row.Major != major || row.Minor != minor, false
	})
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	var places []string
	for _, row := range rows {
		places = append(places, filepath.Clean(row.Mountpoint))
	}
	return places, nil
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
