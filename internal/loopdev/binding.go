package loopdev

import "errors"

// ControlNode is the device node that creates loop devices.
const ControlNode = "/dev/loop-control"

// The errors that callers compare with errors.Is.
var (
	// ErrNone means that no loop device is free and that the kernel creates no more.
	ErrNone = errors.New("no loop device is free")
	// ErrInUse means that a device is mounted, or held by another driver.
	ErrInUse = errors.New("the device is in use")
	// ErrStillOpen means that a device is released only when its last opener closes it.
	ErrStillOpen = errors.New("the device is still open and will be released when it is closed: try again")
)

// Binding is a loop device that is bound to a backing file, as the kernel reports it.
type Binding struct {
	Device      string // such as "/dev/loop3"
	BackingFile string // path of the file
	Deleted     bool   // the file was removed; a file at the same path is another one
	Mark        string // lo_file_name, at most 63 bytes
	// Inode and FileSystem identify the backing file. With Device and Mark they distinguish this
	// binding from a later one of the same device.
	Inode, FileSystem uint64
	ReadOnly          bool
	// Autoclear means that the device is unbound when its last user closes it.
	Autoclear bool
	// Direct means that the device bypasses the page cache of the file; see EnableDirectIO.
	Direct bool
}
