package blockcsi

import (
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

// usageAt returns the usage of the file system at a path, in bytes and inodes.
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

// mountsDuplicateUUIDs reports whether the kernel mounts two btrfs file systems with the same UUID
// (Linux 6.7).
func mountsDuplicateUUIDs() bool {
	_, err := os.Stat("/sys/fs/btrfs/features/temp_fsid")
	return err == nil
}
