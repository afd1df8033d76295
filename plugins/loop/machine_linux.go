package loop

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
)

// tools are the programs that the driver runs, with their packages.
var tools = []struct{ name, from string }{
	{"mkfs.ext4", "e2fsprogs"},
	{"blkid", "util-linux"},
	{"mount", "util-linux (in some distributions: mount)"},
	{"umount", "util-linux (in some distributions: mount)"},
}

// Probe returns nil if volumes on loop devices can be used. Otherwise the error says what is
// missing and how to fix it.
func Probe() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("real loop devices need root, this is user %d: run with sudo, or use the array driver",
			os.Geteuid())
	}
	if !isAdmin() {
		return fmt.Errorf("mounting is not permitted here (no CAP_SYS_ADMIN): " +
			"run the container with --privileged, or use the array driver")
	}
	control, err := os.OpenFile(loopdev.ControlNode, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("loop devices cannot be created (%w): "+
			"load the module with \"modprobe loop\", or pass %s into the container", err, loopdev.ControlNode)
	}
	control.Close()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.name); err != nil {
			return fmt.Errorf("the program %s is not in PATH: install %s, or add /sbin and /usr/sbin to PATH",
				tool.name, tool.from)
		}
	}
	return nil
}

// isAdmin reports whether this process has CAP_SYS_ADMIN in effect.
func isAdmin() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
