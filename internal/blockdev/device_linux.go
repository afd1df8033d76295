package blockdev

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// NumberOf returns which device a node is of.
func NumberOf(node string) (Number, error) {
	var info unix.Stat_t
	if err := unix.Stat(node, &info); err != nil {
		return Number{}, &fs.PathError{Op: "stat", Path: node, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Number{}, fmt.Errorf("%s: %w", node, ErrNoDevice)
	}
	return Number{Major: unix.Major(info.Rdev), Minor: unix.Minor(info.Rdev)}, nil
}

// Size returns a device's size in bytes.
func Size(device string) (int64, error) {
	node, err := os.Open(device)
	if err != nil {
		return 0, err
	}
	defer node.Close()
	return node.Seek(0, io.SeekEnd)
}

// InUse tells whether a device is mounted, in any mount namespace, or held by
// another driver of the kernel's.
func InUse(device string) (bool, error) {
	node, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, node.Close()
}

// IsOpen tells whether anybody can be seen to use a device: it is InUse, or its node
// is bound to another path, as that of a block volume is for a pod. Who only has it
// open cannot be seen.
func IsOpen(device string) (bool, error) {
	inUse, err := InUse(device)
	if err != nil || inUse {
		return inUse, err
	}
	number, err := NumberOf(device)
	if err != nil {
		return false, err
	}
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		if row.Root == "/" {
			return true, false // all of a file system, so a directory
		}
		at, err := NumberOf(row.Mountpoint)
		return err != nil || at != number, false
	})
	if err != nil {
		return false, fmt.Errorf("read the mount table: %w", err)
	}
	return len(rows) > 0, nil
}

// Flush writes what the kernel holds of a device to it.
func Flush(device string) error {
	node, err := os.Open(device)
	if err != nil {
		return err
	}
	defer node.Close()
	return node.Sync()
}

// SetReadOnly has the kernel refuse writes to a device, or take them.
func SetReadOnly(device string, readOnly bool) error {
	node, err := os.Open(device)
	if err != nil {
		return err
	}
	defer node.Close()
	flag := 0
	if readOnly {
		flag = 1
	}
	if err := unix.IoctlSetPointerInt(int(node.Fd()), unix.BLKROSET, flag); err != nil {
		return &fs.PathError{Op: "BLKROSET", Path: device, Err: err}
	}
	return nil
}

// SetReadAhead has the kernel read so many KiB ahead from a device; false if it did.
// A partition has no reading ahead of its own. A device that is made again has what
// the kernel decides; a loop device that is bound again may keep what was set.
func SetReadAhead(device string, kibibytes int64) (changed bool, err error) {
	number, err := NumberOf(device)
	if err != nil {
		return false, err
	}
	directory, err := number.SysfsDirectory()
	if err != nil {
		return false, err
	}
	name := filepath.Join(directory, "queue", "read_ahead_kb")
	text, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	want := strconv.FormatInt(kibibytes, 10)
	if strings.TrimSpace(string(text)) == want {
		return false, nil
	}
	return true, os.WriteFile(name, []byte(want), 0)
}
