package lvm

import (
	"fmt"
	"os"
	"os/exec"
)

// Probe returns nil if volume groups can be used. Otherwise the error says what is missing and how
// to fix it.
func Probe() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("LVM needs root, this is user %d: run with sudo, or use the array driver", os.Geteuid())
	}
	for _, tool := range []struct{ name, from string }{
		{"lvm", "lvm2"},
		{"mkfs.ext4", "e2fsprogs"},
		{"blkid", "util-linux"},
		{"mount", "util-linux (in some distributions: mount)"},
	} {
		if _, err := exec.LookPath(tool.name); err != nil {
			return fmt.Errorf("the program %s is not in PATH: install %s, or add /sbin and /usr/sbin to PATH",
				tool.name, tool.from)
		}
	}
	return nil
}
