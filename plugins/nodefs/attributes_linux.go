package nodefs

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// infoOf converts the kernel's file information to an Info.
func infoOf(info fs.FileInfo) Info {
	result := Info{Mode: info.Mode()}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return result
	}
	result.UID, result.GID = int(status.Uid), int(status.Gid)
	if info.Mode()&fs.ModeDevice != 0 {
		kind := "block"
		if info.Mode()&fs.ModeCharDevice != 0 {
			kind = "character"
		}
		result.Device = fmt.Sprintf("%s %d:%d", kind, unix.Major(status.Rdev), unix.Minor(status.Rdev))
	}
	return result
}

// DeviceOf returns the device that a device node refers to, in the form of [Info].Device. The node
// may lie outside the root.
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
