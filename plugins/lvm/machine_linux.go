package lvm

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Probe returns nil where volume groups can be had, else one sentence for a
// user: what is missing and what to do about it.
func Probe() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("LVM needs root, this is user %d: run with sudo, or use the array driver", os.Geteuid())
	}
	for _, tool := range []struct{ name, from string }{
		{"lvm", "lvm2"}, {"mkfs.ext4", "e2fsprogs"}, {"blkid", "util-linux"}, {"mount", "util-linux (in some distributions: mount)"},
	} {
		if _, err := exec.LookPath(tool.name); err != nil {
			return fmt.Errorf("the program %s is not in PATH: install %s, or add /sbin and /usr/sbin to PATH", tool.name, tool.from)
		}
	}
	return nil
}

// setReadAhead has the kernel read so many KiB ahead from a device. One that is
// made again starts with the kernel's own.
func setReadAhead(device, kibibytes string) error {
	var info unix.Stat_t
	if err := unix.Stat(device, &info); err != nil {
		return fmt.Errorf("stat %s: %w", device, err)
	}
	name := fmt.Sprintf("/sys/dev/block/%d:%d/queue/read_ahead_kb", unix.Major(uint64(info.Rdev)), unix.Minor(uint64(info.Rdev)))
	return os.WriteFile(name, []byte(kibibytes), 0)
}

// setReadOnly has the kernel refuse writes to a device, or take them.
func setReadOnly(device string, readOnly bool) error {
	node, err := os.Open(device)
	if err != nil {
		return err
	}
	defer node.Close()
	flag := 0
	if readOnly {
		flag = 1
	}
	return unix.IoctlSetPointerInt(int(node.Fd()), unix.BLKROSET, flag)
}
