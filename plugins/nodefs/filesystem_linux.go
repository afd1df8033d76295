package nodefs

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockdev"
)

// wipe zeroes the device at a resolved path. It opens the device exclusively, which fails if it is
// mounted.
func wipe(device, place string) error {
	node, err := os.OpenFile(place, os.O_RDWR|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return errInUse(device)
	}
	if err != nil {
		return err
	}
	defer node.Close()
	size, err := blockdev.Size(place)
	if err != nil {
		return err
	}
	whole := [2]uint64{0, uint64(size)}
	_, _, failed := unix.Syscall(unix.SYS_IOCTL, node.Fd(), unix.BLKZEROOUT, uintptr(unsafe.Pointer(&whole)))
	if failed != 0 {
		return pathError("wipe", device, failed)
	}
	return node.Sync()
}

// Capacity implements FS.
func (r *Real) Capacity(name string) (int64, error) {
	place, isDirectory, err := r.resolveExisting(name)
	if err != nil {
		return 0, err
	}
	if !isDirectory {
		if _, err := r.DeviceOf(place); err == nil {
			return blockdev.Size(place)
		}
	}
	var info syscall.Statfs_t
	if err := syscall.Statfs(place, &info); err != nil {
		return 0, pathError("capacity", name, err)
	}
	return int64(info.Blocks) * info.Bsize, nil //nolint:gosec,unconvert // the type differs by architecture
}
