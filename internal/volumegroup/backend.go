package volumegroup

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ExtentSize is the unit in which space is allocated, in bytes.
const ExtentSize = 4 << 20

// quantity returns a number of bytes as text.
func quantity(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// The errors that callers compare with errors.Is.
var (
	// ErrNoSpace means that the group has too few free extents.
	ErrNoSpace = errors.New("too little free space")
	// ErrNoGroup means that the class has no group on this node.
	ErrNoGroup = errors.New("no volume group")
	// ErrInUse means that a volume is mounted or open, or that a group has volumes.
	ErrInUse = errors.New("in use")
	// ErrLost means that a disk of the group, or of the volume, is missing.
	ErrLost = errors.New("a disk of the volume group is missing")
)

// A State says what a disk of a class is to the group.
type State string

// The states.
const (
	InUse   State = "InUse"   // a disk of the group
	Missing State = "Missing" // it does not exist, and was never part of the group
	Refused State = "Refused" // it is not empty, or not a disk
	Lost    State = "Lost"    // it is part of the group, and does not exist
)

// A Disk is a disk of a class.
type Disk struct {
	Path    string // as the class names it
	Size    int64  // usable bytes; 0 unless it is InUse or Lost
	State   State
	Message string // what was found; "" for InUse
}

// A Volume is a logical volume.
type Volume struct {
	Name  string
	Size  int64  // in bytes
	Path  string // of its device on the node
	Owner string // see Spec
	// Unfinished means that Finish was not called.
	Unfinished bool
	// Lost means that a disk of the volume is missing.
	Lost bool
}

// A Report is a group at one moment.
type Report struct {
	Group      string   // its name
	Size, Free int64    // in bytes
	Largest    int64    // largest volume that can be created, in bytes; 0 while a disk is lost
	Disks      []Disk   // in the order of the class, then lost ones that it no longer names
	Volumes    []Volume // by name
	Changed    bool     // by the call that returned it
}

// Lost reports whether a disk of the group is missing.
func (r Report) Lost() bool {
	for _, disk := range r.Disks {
		if disk.State == Lost {
			return true
		}
	}
	return false
}

// A Spec describes a volume.
type Spec struct {
	Name  string
	Size  int64  // in bytes; rounded up to whole extents
	Owner string // what the volume is for; letters, digits and ./-
}

// A Backend keeps the volume groups of a node. All methods may be called concurrently, and are
// idempotent.
type Backend interface {
	// Ensure creates the group of a class from those disks that are usable, or adds those to it that
	// it lacks, and makes the devices of its volumes visible. Without a usable disk there is no group:
	// the report has no name.
	Ensure(ctx context.Context, class string, disks []string) (Report, error)
	// Create creates a volume. An existing one of the name and at least the size is returned.
	Create(ctx context.Context, class string, spec Spec) (Volume, error)
	// Finish marks a volume as finished.
	Finish(ctx context.Context, class, name string) error
	// Extend grows a volume. One of at least the size is left unchanged.
	Extend(ctx context.Context, class, name string, size int64) (Volume, error)
	// Remove removes a volume and its content. A missing volume is not an error.
	Remove(ctx context.Context, class, name string) error
	// Activate makes the devices of all volumes visible, as after a reboot.
	Activate(ctx context.Context) error
	// Destroy removes a group without volumes. A missing group is not an error.
	Destroy(ctx context.Context, class string) error
}

// extents returns a size in whole extents, rounded up.
func extents(size int64) int64 { return (size + ExtentSize - 1) / ExtentSize }
