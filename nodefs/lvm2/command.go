package lvm2

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

const (
	// searchPath is where lvm is looked for, and where it looks for what it calls.
	searchPath = "/usr/sbin:/sbin:/usr/bin:/bin"
	// commandGrace is how long a command may go on after the end of its context.
	// An ordinary one takes milliseconds; one that is killed leaves metadata as it
	// was or as it should be, but may leave a device of device-mapper suspended.
	commandGrace = time.Minute
)

// lvm runs one command of LVM and returns its standard output. One that has begun
// is let finish even if ctx ends, and then counts by its own result.
func (s *System) lvm(ctx context.Context, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lvm %s: %w", args[0], err)
	}
	command := exec.CommandContext(ctx, s.command, args...)
	command.Env = []string{
		"PATH=" + searchPath, "LC_ALL=C", "LVM_SYSTEM_DIR=" + s.directory,
		"LVM_SUPPRESS_FD_WARNINGS=1", "DM_DISABLE_UDEV=1",
	}
	command.Dir = s.directory
	command.Cancel = func() error { return os.ErrProcessDone }
	command.WaitDelay = s.grace
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	ownGroup(command)
	tell := func(ended bool) {
		if s.onCommand != nil {
			s.onCommand(args, ended)
		}
	}
	tell(false)
	err := command.Run()
	tell(true)
	if err != nil {
		return nil, failed(args, stderr.String(), err)
	}
	return stdout.Bytes(), nil
}
