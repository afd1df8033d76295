package loopdev

import "errors"

// ControlNode is the device node through which the kernel is asked for loop devices.
const ControlNode = "/dev/loop-control"

// The outcomes a caller tells apart with errors.Is.
var (
	// ErrNone says that no loop device is free, and that the kernel makes no more.
	ErrNone = errors.New("no loop device is free")
	// ErrInUse says that a device is mounted, or held by another driver.
	ErrInUse = errors.New("the device is in use")
	// ErrStillOpen says that a device goes only when somebody who has it open closes it.
	ErrStillOpen = errors.New("somebody holds the device open; it goes once they close it: try again")
)

// Bound is a loop device that has a backing file, as the kernel told it.
type Bound struct {
	Device      string // "/dev/loop3"
	BackingFile string // path of the file
	Deleted     bool   // that file was removed; one at the same path is another
	Mark        string // lo_file_name, at most 63 bytes
	// Inode and FileSystem are the numbers of the backing file: with Device and
	// Mark they tell this binding from a later one of the same device.
	Inode, FileSystem uint64
	ReadOnly          bool
	// Autoclear says that the device unbinds itself when its last user closes it.
	Autoclear bool
	// Direct says that the device goes past the kernel's cache of the file; see GoDirect.
	Direct bool
}
