package blockdev

import (
	"errors"
	"fmt"
	"path/filepath"
)

// The outcomes a caller tells apart with errors.Is.
var (
	// ErrNoDevice says that a path is there, and is no node of a block device.
	ErrNoDevice = errors.New("not a block device")
	// ErrFrozen says that somebody else has frozen a file system.
	ErrFrozen = errors.New("the file system is frozen already")
	// ErrUnsupported says that this system is not Linux.
	ErrUnsupported = errors.New("block devices need Linux")
)

// Number is what the kernel knows a device by, as long as that is there.
type Number struct{ Major, Minor uint32 }

// String returns the number as sysfs writes it: "7:3".
func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// SysfsDirectory returns where sysfs tells of the device, which ends in the name that the
// kernel gave it: "loop3", "dm-1". It gives an error of fs.ErrNotExist if the kernel
// has no such device any more.
func (n Number) SysfsDirectory() (string, error) {
	return filepath.EvalSymlinks("/sys/dev/block/" + n.String())
}

// MountPoints returns where the file system on a device is mounted, as this process
// sees it.
func MountPoints(device string) ([]string, error) {
	rows, err := Mounts(device)
	var places []string
	for _, row := range rows {
		places = append(places, filepath.Clean(row.Mountpoint))
	}
	return places, err
}
