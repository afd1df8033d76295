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
	// searchPath is where lvm is searched, and where lvm searches for other programs.
	searchPath = "/usr/sbin:/sbin:/usr/bin:/bin"
	// commandGrace is how long a command may run after its context ended. A command takes
	// milliseconds. Killing it leaves metadata consistent, but may leave a device-mapper device
	// suspended.
	commandGrace = time.Minute
)

// lvm runs an LVM command and returns its standard output. A command that has started may finish
// even if ctx ends; its own result is then returned.
func (s *System) lvm(ctx context.Context, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lvm %s: %w", args[0], err)
	}
	command := exec.CommandContext(ctx, s.command, s.withoutSysfs(args)...)
	command.Env = []string{
		"PATH=" + searchPath, "LC_ALL=C", "LVM_SYSTEM_DIR=" + s.directory,
		"LVM_SUPPRESS_FD_WARNINGS=1", "DM_DISABLE_UDEV=1",
		// It frees all memory when it exits.
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

// metadataCommands are the commands that, without device-mapper, only read and write metadata.
var metadataCommands = []string{"fullreport", "lvcreate", "lvchange", "lvextend", "lvremove", "lvrename"}

// withoutSysfs hides sysfs from a command that only handles metadata. With sysfs, LVM asks for each
// block device of the machine whether it belongs to device-mapper, and reads /proc/devices each
// time. With a thousand active volumes that takes ten times as long as everything else.
func (s *System) withoutSysfs(args []string) []string {
	if s.mode != Partitions || !slices.Contains(metadataCommands, args[0]) {
		return args
	}
	return slices.Concat(args[:1], []string{"--config", fmt.Sprintf("global/proc=%q", s.proc())}, args[1:])
}

// proc returns a directory that LVM takes for /proc on a machine without sysfs.
func (s *System) proc() string { return filepath.Join(s.directory, "proc") }

// makeProc creates that directory.
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
