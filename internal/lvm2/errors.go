package lvm2

import (
	"errors"
	"fmt"
	"strings"
)

// The errors that callers compare with errors.Is. Any other error has the message of the command;
// the outcome is then unknown.
var (
	// ErrNoSpace means that the volume group, or the pool, has too few free extents.
	ErrNoSpace = errors.New("too few free extents")
	// ErrNotContiguous means that there are enough free extents, but not contiguous ones where the
	// volume needs them.
	ErrNotContiguous = errors.New("no contiguous free extents")
	// ErrExists means that the name is taken by something with other properties.
	ErrExists = errors.New("exists with other properties")
	// ErrInUse means that a volume is mounted or open, that other volumes depend on it, or that a
	// disk has another user.
	ErrInUse = errors.New("in use")
	// ErrNotFound means that the volume group was read, and has no volume of that name.
	ErrNotFound = errors.New("no such logical volume")
	// ErrNoGroup means that no volume group of that name could be read. Its disks may be missing or
	// damaged, so its volumes may still exist.
	ErrNoGroup = errors.New("volume group cannot be read")
	// ErrMissingDevice means that a disk of the volume group is missing.
	ErrMissingDevice = errors.New("a disk of the volume group is missing")
	// ErrDuplicateDevice means that two disks claim to be the same one. LVM then refuses to write.
	ErrDuplicateDevice = errors.New("a disk of the volume group exists twice")
	// ErrInvalidArgument means that LVM does not accept a name, a tag or a size.
	ErrInvalidArgument = errors.New("not allowed by LVM")
	// ErrForeign means that a disk or a volume group belongs to another LVM.
	ErrForeign = errors.New("belongs to another LVM")
	// ErrNotEmpty means that a disk has content that is not ours.
	ErrNotEmpty = errors.New("not empty")
	// ErrUnknownData means that a disk has data at its start in which LVM recognizes nothing.
	ErrUnknownData = errors.New("has data without a known signature")
	// ErrUnsupported means that device-mapper, or one of its targets, is required but not
	// available.
	ErrUnsupported = errors.New("not possible without device-mapper")
)

// messageClasses maps parts of LVM's messages, in lower case, to errors. The first match counts.
// The case of LVM's messages varies between commands.
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

// ignoredWarnings are warnings that LVM prints because of our configuration.
var ignoredWarnings = []string{
	"WARNING: Activation disabled", "WARNING: This metadata update is NOT backed up", "not zeroed", "Skipping zeroing",
	"Failed to find sysfs mount point",
}

// CommandError is a failed LVM command.
type CommandError struct {
	Args  []string
	Text  string // standard error, without ignored warnings
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

// Unwrap returns the class of the error, if known, and the process's exit error.
func (e *CommandError) Unwrap() []error {
	if e.class == nil {
		return []error{e.cause}
	}
	return []error{e.class, e.cause}
}

// commandError returns the error of a command that failed with cause.
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

// classOf returns the error that a message stands for, or nil.
func classOf(text string) error {
	text = strings.ToLower(text)
	for _, each := range messageClasses {
		if strings.Contains(text, each.text) {
			return each.class
		}
	}
	return nil
}
