package blockdev

import (
	"errors"
	"fmt"
	"path/filepath"
)

// The errors that callers compare with errors.Is.
var (
	// ErrNoDevice means that a path exists but is not a block device node.
	ErrNoDevice = errors.New("not a block device")
	// ErrFrozen means that a file system is frozen by another process.
	ErrFrozen = errors.New("the file system is already frozen")
	// ErrUnsupported means that this system is not Linux.
	ErrUnsupported = errors.New("block devices need Linux")
)

// Number identifies a device to the kernel while the device exists.
type Number struct{ Major, Minor uint32 }

// String returns the number as sysfs writes it, such as "7:3".
func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// SysfsDirectory returns the device's directory in sysfs. It ends in the kernel's name of the
// device, such as "loop3" or "dm-1". The error matches fs.ErrNotExist if the device no longer
// exists.
func (n Number) SysfsDirectory() (string, error) {
	return filepath.EvalSymlinks("/sys/dev/block/" + n.String())
}

// MountPoints returns the paths at which the file system on a device is mounted, as this process
// sees it.
func MountPoints(device string) ([]string, error) {
	rows, err := Mounts(device)
	var places []string
	for _, row := range rows {
		places = append(places, filepath.Clean(row.Mountpoint))
	}
	return places, err
}
