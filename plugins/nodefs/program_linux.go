package nodefs

import (
	"os/exec"
	"syscall"
)

// killGroup makes a command run in a process group of its own, which is killed with it.
func killGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
