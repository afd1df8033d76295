package guest

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// A Config configures a guest. The zero value is valid: 1 GiB of memory, no disks, and the
// environment, working directory, standard output and standard error of this process.
type Config struct {
	// Kernel is the program that is the kernel; "" means linux.uml in PATH.
	Kernel string
	// Memory is the guest's memory in bytes, at least 128 MiB; 0 means 1 GiB. Unused memory costs
	// nothing.
	Memory int64
	// Disks are files of this machine, at most eight, that are /dev/ubda, /dev/ubdb, … in the
	// guest, in this order. In the guest, the variable GUEST_DISKS contains the device names,
	// separated by spaces.
	Disks []string
	// Modules are the kernel modules to load, with their dependencies; nil means Modules().
	Modules []string
	// Writable are folders of this machine that the guest can write to.
	Writable []string
	// Dir is the command's working directory; "" means this process's.
	Dir string
	// Env is the command's environment; nil means this process's. TMPDIR is always the guest's, and
	// PATH always includes the system folders.
	Env []string
	// Stdout and Stderr receive the command's output while it runs; nil means this process's. If
	// both are the same writer, the order of the output is preserved and Write is not called
	// concurrently.
	Stdout, Stderr io.Writer
	// BootTimeout is how long the guest may take to start process 1; 0 means one minute. The
	// context limits the command.
	BootTimeout time.Duration
	// Console receives the kernel's console output. A CrashError also contains the end of it.
	Console io.Writer
	// RAID6 enables the kernel's benchmark of RAID 6 routines, which takes two thirds of a second.
	RAID6 bool
	// PadXState loads the shim for processors with AMX on other processors too.
	PadXState bool
}

const (
	memoryDefault = 1 << 30
	memoryMin     = 128 << 20
	disksMax      = 8
)

// Modules returns the default modules: loop devices, and the parts of device-mapper that LVM and
// tests of failing disks use. The file systems ext4, XFS and Btrfs are built into the kernel.
func Modules() []string {
	return []string{
		"loop", "dm-mod", "dm-thin-pool", "dm-snapshot", "dm-mirror", "dm-raid", "raid1", "raid10", "dm-zero",
		"dm-flakey", "dm-delay", "dm-dust", "dm-log-writes",
	}
}

// ErrUnavailable reports that no guest can run on this machine. The message says what is missing
// and how to install it.
var ErrUnavailable = errors.New("User-Mode-Linux guests unavailable")

// ErrKilled is returned by Wait after Kill.
var ErrKilled = errors.New("guest killed")

// An ExitError reports a command that failed.
type ExitError struct {
	// Code is the exit status: the command's, 128 plus the number of the signal that ended it, or
	// 127 if there is no such command.
	Code int
}

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d in the guest", e.Code) }

// A CrashError reports a guest that ended before its command.
type CrashError struct {
	Reason  string // short description
	Console string // end of the kernel's console output
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("guest crashed: %s; end of the kernel's console:\n%s", e.Reason, e.Console)
}
