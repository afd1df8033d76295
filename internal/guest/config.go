package guest

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Config says what a guest is like. The zero value serves: 1 GiB, no disks, the environment and the working directory of this
// process, its standard output and error.
type Config struct {
	// Kernel is the program that is the kernel; "" is linux.uml of the PATH.
	Kernel string
	// Memory is the guest's memory in bytes, at least 128 MiB; 0 is 1 GiB. What the guest does not touch costs nothing.
	Memory int64
	// Disks are files of this machine, at most eight, which the guest has as /dev/ubda, /dev/ubdb, …, in this order. Inside,
	// the variable GUEST_DISKS has the names of the devices, with spaces between.
	Disks []string
	// Modules are the kernel's modules that are loaded, with what they need; nil is Modules().
	Modules []string
	// Writable are folders of this machine that the guest may write in, and whose writes stay.
	Writable []string
	// Dir is the command's working directory; "" is this process's.
	Dir string
	// Env is the command's environment; nil is this process's. TMPDIR is always the guest's own, and the folders of the
	// system's programs are always in PATH.
	Env []string
	// Stdout and Stderr get what the command writes, while it runs; nil is this process's. Where both are the same writer, all
	// comes in order, and one Write is made at a time.
	Stdout, Stderr io.Writer
	// BootTimeout is how long the guest may take until its process 1 runs; 0 is a minute. How long the command may take is for
	// the context to say.
	BootTimeout time.Duration
	// Console gets what the kernel prints; its end is in a DiedError besides.
	Console io.Writer
	// RAID6 lets the kernel choose its routines for RAID 6, for two thirds of a second.
	RAID6 bool
	// PadXState puts the shim for processors with AMX before the kernel also where the processor has none.
	PadXState bool
}

const (
	memoryDefault = 1 << 30
	memoryMin     = 128 << 20
	disksMax      = 8
)

// Modules are the modules that a guest loads unless told otherwise: loop devices, and device-mapper with what LVM and tests
// of failing disks need of it. File systems (ext4, XFS, Btrfs) are in the kernel.
func Modules() []string {
	return []string{
		"loop", "dm-mod", "dm-thin-pool", "dm-snapshot", "dm-mirror", "dm-raid", "raid1", "raid10", "dm-zero",
		"dm-flakey", "dm-delay", "dm-dust", "dm-log-writes",
	}
}

// ErrUnavailable says that a guest cannot run here: what is missing, and how to get it.
var ErrUnavailable = errors.New("no User-Mode-Linux guest can run here")

// ErrKilled is what came of a guest whose power was lost: Kill was called.
var ErrKilled = errors.New("the guest was killed")

// ExitError is a command that failed.
type ExitError struct {
	// Code is the exit status: the command's, 128 and the signal's number if one ended it, 127 if there is no such command.
	Code int
}

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d in the guest", e.Code) }

// CrashError is a guest that went before it had told what came of its command.
type CrashError struct {
	Reason  string // in a few words
	Console string // the end of what the kernel printed
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("the guest died: %s; its kernel's last words:\n%s", e.Reason, e.Console)
}
