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

// NumberOf returns the number of the device that a node refers to.
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

// InUse reports whether a device is mounted, in any mount namespace, or held by another kernel
// driver.
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

// IsOpen reports whether a device has a visible user: it is InUse, or its node is bound to another
// path, as a block volume's is for a pod. A process that only has the node open is not visible.
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
			return true, false // the whole of a file system, so a directory
		}
		at, err := NumberOf(row.Mountpoint)
		return err != nil || at != number, false
	})
	if err != nil {
		return false, fmt.Errorf("read the mount table: %w", err)
	}
	return len(rows) > 0, nil
}

// Flush writes the kernel's cached writes to the device.
func Flush(device string) error {
	node, err := os.Open(device)
	if err != nil {
		return err
	}
	defer node.Close()
	return node.Sync()
}

// SetReadOnly makes the kernel refuse or accept writes to a device.
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

// SetReadAhead sets the kernel's read-ahead of a device in KiB. It reports whether that changed
// anything. A partition has no read-ahead of its own. A recreated device has the kernel's default;
// a loop device that is bound again may keep the old value.
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
