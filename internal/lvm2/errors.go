package lvm2

import (
	"errors"
	"fmt"
	"strings"
)

// The outcomes that a caller tells apart with errors.Is. Every other error
// carries what the command said, and means that nothing is known.
var (
	// ErrNoSpace says that the volume group, or the pool, has too few free extents.
	ErrNoSpace = errors.New("too few free extents")
	// ErrNotContiguous says that there are enough free extents, but not in one
	// piece, or not where the volume could use them.
	ErrNotContiguous = errors.New("no free extents in one piece there")
	// ErrExists says that there is one of that name, and that it is not what was asked for.
	ErrExists = errors.New("exists, and is another")
	// ErrInUse says that a volume is mounted or open, or that others depend on it, or
	// that a disk has another user.
	ErrInUse = errors.New("in use")
	// ErrNotFound says that the volume group was read, and has no volume of that name.
	ErrNotFound = errors.New("no such logical volume")
	// ErrNoGroup says that no volume group of that name could be read. Its disks may
	// be missing or broken: never take it for a volume that is gone.
	ErrNoGroup = errors.New("volume group cannot be read")
	// ErrMissingDevice says that a disk of the volume group is not there.
	ErrMissingDevice = errors.New("a disk of the volume group is missing")
	// ErrDuplicateDevice says that two disks claim to be the same one. LVM writes
	// nothing then.
	ErrDuplicateDevice = errors.New("a disk of the volume group is there twice")
	// ErrInvalidArgument says that LVM does not take a name, a tag or a size.
	ErrInvalidArgument = errors.New("not allowed by LVM")
	// ErrForeign says that a disk or a volume group belongs to another LVM.
	ErrForeign = errors.New("belongs to another LVM")
	// ErrNotEmpty says that a disk holds something that is not ours.
	ErrNotEmpty = errors.New("not empty")
	// ErrUnsupported says that it takes device-mapper, which is not here, or a
	// target of it that is not here.
	ErrUnsupported = errors.New("not possible without device-mapper")
)

// messageClasses are parts of what LVM's commands say, in lower case, and what they mean.
// The first that fits counts. LVM's sentences differ in case between commands.
var messageClasses = []struct {
	text  string
	class error
}{
	{"suitable contiguous allocatable extents", ErrNotContiguous},
	{"insufficient suitable allocatable extents", ErrNoSpace},
	{"insufficient free space", ErrNoSpace},
	{"insufficient free extents", ErrNoSpace},
	{"free space in volume group", ErrNoSpace},
	{"not enough free", ErrNoSpace},
	{"duplicate pv", ErrDuplicateDevice},
	{"while pvs are missing", ErrMissingDevice},
	{"is missing pv", ErrMissingDevice},
	{"missing physical volume", ErrMissingDevice},
	{"with pvs missing", ErrMissingDevice},
	{"refusing activation of partial lv", ErrMissingDevice},
	{"with system id", ErrForeign},
	{"existing signature", ErrNotEmpty},
	{"cannot use device", ErrNotEmpty},
	{"is already in volume group", ErrInUse},
	{"in use", ErrInUse},
	{"used by another device", ErrInUse},
	{"device or resource busy", ErrInUse},
	{"can't open", ErrInUse},
	{"already exists", ErrExists},
	{"failed to find logical volume", ErrNotFound},
	{"existing logical volume", ErrNotFound},
	{"not found in volume group", ErrNotFound},
	{"cannot process volume group", ErrNoGroup},
	{"no device found", ErrMissingDevice},
	{"without using device-mapper", ErrUnsupported},
	{"device-mapper target(s) not detected", ErrUnsupported},
	{"is invalid", ErrInvalidArgument},
	{"invalid argument", ErrInvalidArgument},
	{"are reserved", ErrInvalidArgument},
	{"too long", ErrInvalidArgument},
}

// ignoredWarnings is what LVM warns of because of our own configuration.
var ignoredWarnings = []string{
	"WARNING: Activation disabled", "WARNING: This metadata update is NOT backed up", "not zeroed", "Skipping zeroing", "Failed to find sysfs mount point",
}

// CommandError is what a command of LVM said as it failed.
type CommandError struct {
	Args  []string
	Text  string // its standard error, without warnings of what we chose
	class error
	cause error
}

// Error implements error.
func (e *CommandError) Error() string {
	text := e.Text
	if text == "" {
		text = e.cause.Error()
	}
	return fmt.Sprintf("lvm %s: %s", e.Args[0], text)
}

// Unwrap returns the class of the error, if it is known, and how the process ended.
func (e *CommandError) Unwrap() []error {
	if e.class == nil {
		return []error{e.cause}
	}
	return []error{e.class, e.cause}
}

// commandError makes an error of a command that ended with cause.
func commandError(args []string, stderr string, cause error) error {
	var lines []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line != "" && !isIgnored(line) {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	return &CommandError{Args: args, Text: text, class: classOf(text), cause: cause}
}

func isIgnored(line string) bool {
	for _, each := range ignoredWarnings {
		if strings.Contains(line, each) {
			return true
		}
	}
	return false
}

// classOf returns what a text means, or nil.
func classOf(text string) error {
	text = strings.ToLower(text)
	for _, each := range messageClasses {
		if strings.Contains(text, each.text) {
			return each.class
		}
	}
	return nil
}
