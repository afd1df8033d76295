package nodefs

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// infoOf turns what the kernel tells of a file into an Info.
func infoOf(info fs.FileInfo) Info {
	told := Info{Mode: info.Mode()}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return told
	}
	told.UID, told.GID = int(status.Uid), int(status.Gid)
	if info.Mode()&fs.ModeDevice != 0 {
		kind := "block"
		if info.Mode()&fs.ModeCharDevice != 0 {
			kind = "character"
		}
		told.Device = fmt.Sprintf("%s %d:%d", kind, unix.Major(status.Rdev), unix.Minor(status.Rdev))
	}
	return told
}

// DeviceOf tells, as Stat does, which device a device node of the machine is of.
// The node may lie outside the root.
func (r *Real) DeviceOf(node string) (string, error) {
	info, err := os.Stat(node)
	if err != nil {
		return "", err
	}
	device := infoOf(info).Device
	if device == "" {
		return "", fmt.Errorf("%s is not a device node", node)
	}
	return device, nil
}
