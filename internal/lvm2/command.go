package lvm2

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	command := exec.CommandContext(ctx, s.command, s.withoutSysfs(args)...)
	command.Env = []string{
		"PATH=" + searchPath, "LC_ALL=C", "LVM_SYSTEM_DIR=" + s.directory,
		"LVM_SUPPRESS_FD_WARNINGS=1", "DM_DISABLE_UDEV=1",
		// Whatever it takes of memory it gives back by ending, once.
		"MALLOC_TRIM_THRESHOLD_=1000000000", "MALLOC_TOP_PAD_=8000000",
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
		return nil, commandError(args, stderr.String(), err)
	}
	return stdout.Bytes(), nil
}

// metadataCommands are the commands that, without device-mapper, read and write metadata
// and nothing else.
var metadataCommands = []string{"fullreport", "lvcreate", "lvchange", "lvextend", "lvremove", "lvrename"}

// withoutSysfs has a command that is of metadata alone look for no sysfs. There
// LVM asks of each block device of the machine whether it is one of
// device-mapper's, and reads /proc/devices each time: where a thousand volumes
// are active, that takes ten times as long as all else.
func (s *System) withoutSysfs(args []string) []string {
	if s.mode != Partitions || !slices.Contains(metadataCommands, args[0]) {
		return args
	}
	return slices.Concat(args[:1], []string{"--config", fmt.Sprintf("global/proc=%q", s.proc())}, args[1:])
}

// proc is a directory that looks to LVM like /proc on a machine without sysfs.
func (s *System) proc() string { return filepath.Join(s.directory, "proc") }

// makeProc makes it.
func (s *System) makeProc() error {
	if s.mode != Partitions {
		return nil
	}
	drivers, err := os.ReadFile("/proc/devices")
	if err == nil {
		err = os.MkdirAll(s.proc(), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.proc(), "devices"), drivers, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.proc(), "mounts"), nil, 0o600)
	}
	return err
}
