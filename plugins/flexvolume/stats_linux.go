package flexvolume

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/plugins"
)

// statFS returns the usage of a file system.
//
// Upstream: pkg/volume/util/fs Info (v1.36).
func statFS(path string) (plugins.Usage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return plugins.Usage{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	block := int64(s.Bsize) //nolint:unconvert // the type differs by architecture
	return plugins.Usage{
		CapacityBytes: int64(s.Blocks) * block, AvailableBytes: int64(s.Bavail) * block,
		UsedBytes: int64(s.Blocks-s.Bfree) * block,
		Inodes:    int64(s.Files), InodesFree: int64(s.Ffree), InodesUsed: int64(s.Files - s.Ffree),
	}, nil
}
