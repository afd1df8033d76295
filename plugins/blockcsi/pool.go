package blockcsi

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/internal/csireq"
)

// Pool is where volumes lie. Its methods return gRPC statuses with the codes of
// the CSI specification and messages that say what to do: NotFound for a volume
// that is not there, ResourceExhausted where no room is left, FailedPrecondition
// for one that is in use, Unavailable where what it lies on cannot be read (which
// never means that a volume is gone). Any other error becomes Internal.
//
// They may be called concurrently; not for one volume, nor for a volume and one
// that is copied from it. Each is to be all or nothing, whenever the process is
// killed: what was begun is Unfinished to Volumes or not there, until Recover.
type Pool interface {
	// Node is the node that alone can use the volumes of this pool; "" is any.
	Node() string
	// RegisterNode makes a node known, to which volumes can be attached from now on.
	RegisterNode(node string)
	// Capabilities are what the pool can do. They do not change.
	Capabilities() Capabilities
	// ValidateParameters returns InvalidArgument, with the key, for parameters of a class and
	// settings that the pool does not take.
	ValidateParameters(parameters, settings map[string]string) error
	// Sizes are the rules for the size of a volume.
	Sizes(parameters map[string]string) csireq.Sizes
	// Capacity tells how much more the pool takes of volumes with such parameters.
	Capacity(ctx context.Context, parameters map[string]string) (Capacity, error)

	// Volumes returns volumes and snapshots, sorted by ID, Unfinished ones as well.
	Volumes(ctx context.Context) ([]Volume, error)
	// Volume returns one of them, or NotFound.
	Volume(ctx context.Context, id string) (Volume, error)
	// Create makes a volume or a snapshot, of which nothing is there.
	Create(ctx context.Context, wish VolumeSpec) (Volume, error)
	// Delete removes a volume or a snapshot that is not attached. What is copied
	// from it stays.
	Delete(ctx context.Context, volume Volume) error
	// Extend makes a volume larger, in use or not, and the device that it is
	// attached as. It never shrinks one.
	Extend(ctx context.Context, volume Volume, sizeBytes int64) error
	// Modify makes these the volume's settings, and has those with an effect on an
	// attached device take it.
	Modify(ctx context.Context, volume Volume, settings map[string]string) error

	// Attach lets a volume be a device on a node. It may be attached there
	// already, in the same way, and nowhere else.
	Attach(ctx context.Context, volume Volume, node string, readOnly bool) (Attachment, error)
	// Attachment tells where a volume is attached; nil is nowhere.
	Attachment(ctx context.Context, volume Volume) (*Attachment, error)
	// Attachments returns those of all volumes.
	Attachments(ctx context.Context) ([]Attachment, error)
	// Detach undoes Attach. A device that is in use is FailedPrecondition.
	Detach(ctx context.Context, attached Attachment) error

	// Recover finishes or undoes what a process that was killed had begun, and
	// says what it did, a line each.
	Recover(ctx context.Context) (done []string, err error)
	// Orphans are devices, files and volumes that carry the pool's mark and belong
	// to no volume, a line each with how to get rid of it.
	Orphans(ctx context.Context) ([]string, error)
}

// Capabilities are what a Pool can do beyond plain volumes.
type Capabilities struct {
	// FSTypes are the file systems that may be asked for; the first is the default.
	FSTypes []string
	// CanCopy says that volumes can be snapshotted, restored and cloned.
	CanCopy bool
	// AtomicCopies says that a copy holds one instant of the device by itself.
	// Where it does not, the file system is frozen for as long as the copy takes,
	// and a volume that is used as a device is not copied.
	AtomicCopies bool
	// CopyFreezes says that making a copy freezes a mounted file system by itself, and
	// fails on one that is frozen: so nobody else freezes it, and there are no group
	// snapshots, which take several to be frozen at once.
	CopyFreezes bool
	// PersistentAttach says that a volume stays attached when the machine is started again.
	// Its device is then another one, whatever the publish context says, and it
	// has that as soon as it is staged.
	PersistentAttach bool
	// Settings are the keys that Modify takes, sorted; none: volumes are not modified.
	Settings []string
}

// groups tells whether several volumes can be copied at one instant.
func (a Capabilities) groups() bool { return a.CanCopy && !a.CopyFreezes }

// Capacity is what is left in a pool, in bytes.
type Capacity struct {
	FreeBytes      int64 // of all volumes together
	MaxVolumeBytes int64 // of one volume
	MinVolumeBytes int64 // of one volume
	// Location is the name of what volumes take room from as they are written to; "" where
	// each has all of its room from the start.
	Location string
}

// Volume is a volume or a snapshot.
type Volume struct {
	ID   string // see csireq.VolumeID, csireq.SnapshotID
	Name string // that it was asked for with; "" where that is not known
	// SizeBytes is the size of the device.
	SizeBytes int64
	// Source is the ID of what it was copied from; "" is nothing. That may be gone.
	Source string
	// Group is the ID of the group snapshot that a snapshot is one of, GroupSize how
	// many those are: while there are fewer, the group is not whole. "" is none.
	Group     string
	GroupSize int
	// Created is when it was made.
	Created time.Time
	// Parameters are those of the class that it was made with, as far as the pool
	// takes them, Settings those that can be modified.
	Parameters, Settings map[string]string
	// Discard says that its file system gives back at once what it frees, as soon as
	// it is mounted: Parameters and Settings say so.
	Discard bool
	// Unfinished says that it is being made or removed, or was when the driver was killed.
	Unfinished bool
	// Trouble says what is wrong with it and what to do; "" is nothing.
	Trouble string
}

// IsSnapshot tells a snapshot from a volume.
func (v Volume) IsSnapshot() bool { return strings.HasPrefix(v.ID, csireq.SnapshotPrefix) }

// VolumeSpec is a volume or a snapshot that is to be made.
type VolumeSpec struct {
	ID, Name             string
	SizeBytes            int64   // at least that of From
	From                 *Volume // nil is nothing
	Group                string  // see Volume
	GroupSize            int
	Parameters, Settings map[string]string
}

// Attachment is a volume that is a device on a node.
type Attachment struct {
	VolumeID string
	Node     string // as Serve was told it, or words for a node that is not known
	// Device is the path of the device's node on this machine; "" where it went with
	// a restart of the machine: Attach makes it again. See Abilities.Lasting.
	Device   string
	ReadOnly bool
}

// location tells where a volume is attached.
func (a Attachment) location() string {
	if a.Device == "" {
		return a.Node + ", where it has no device since the machine was started"
	}
	return a.Node + " as " + a.Device
}

func notFound(id string) error { return status.Errorf(codes.NotFound, "no volume %q", id) }
