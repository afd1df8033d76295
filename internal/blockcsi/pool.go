package blockcsi

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
)

// Pool stores volumes.
//
// Its methods return gRPC statuses with the codes of the CSI specification and messages that say
// what to do: NotFound for a volume that does not exist, ResourceExhausted without room,
// FailedPrecondition for one in use, and Unavailable if its storage cannot be read. Unavailable
// never means that a volume does not exist. Any other error becomes Internal.
//
// Methods may be called concurrently, but not for one volume, nor for a volume and its copy. Each
// is atomic even if the process is killed: until Recover, an interrupted volume is Unfinished or
// does not exist.
type Pool interface {
	PoolInfo
	VolumeReader
	VolumeWriter
	Attacher
	Recoverer
}

// PoolInfo describes a pool.
type PoolInfo interface {
	// Node returns the only node that can use the volumes of this pool; "" means any.
	Node() string
	// Capabilities returns what the pool supports. It is constant.
	Capabilities() Capabilities
	// ValidateParameters returns InvalidArgument, with the key, for class parameters and settings
	// that the pool does not accept.
	ValidateParameters(parameters, settings map[string]string) error
	// Sizes returns the size rules of volumes with these class parameters.
	Sizes(parameters map[string]string) Sizes
	// Capacity returns the room for volumes with these class parameters.
	Capacity(ctx context.Context, parameters map[string]string) (Capacity, error)
}

// VolumeReader reads volumes and snapshots.
type VolumeReader interface {
	// Volumes returns all volumes and snapshots, sorted by ID, including Unfinished ones.
	Volumes(ctx context.Context) ([]Volume, error)
	// Volume returns one of them, or NotFound.
	Volume(ctx context.Context, id string) (Volume, error)
}

// VolumeWriter creates, changes and deletes volumes and snapshots.
type VolumeWriter interface {
	// Create creates a volume or a snapshot that does not exist.
	Create(ctx context.Context, spec VolumeSpec) (Volume, error)
	// Delete removes a volume or a snapshot that is not attached. Its copies remain.
	Delete(ctx context.Context, volume Volume) error
	// Extend grows a volume, in use or not, and its attached device. It never shrinks one.
	Extend(ctx context.Context, volume Volume, sizeBytes int64) error
	// Modify replaces the volume's settings, and applies them to an attached device.
	Modify(ctx context.Context, volume Volume, settings map[string]string) error
}

// Attacher attaches volumes to nodes.
type Attacher interface {
	// RegisterNode registers a node, so that volumes can be attached to it.
	RegisterNode(node string)
	// Attach makes a volume a device on a node. The volume may be attached there already in the
	// same mode, but nowhere else.
	Attach(ctx context.Context, volume Volume, node string, readOnly bool) (Attachment, error)
	// Attachment returns the attachment of a volume, or nil.
	Attachment(ctx context.Context, volume Volume) (*Attachment, error)
	// Attachments returns the attachments of all volumes.
	Attachments(ctx context.Context) ([]Attachment, error)
	// Detach undoes Attach. For a device in use it returns FailedPrecondition.
	Detach(ctx context.Context, attached Attachment) error
}

// Recoverer recovers from a killed process.
type Recoverer interface {
	// Recover completes or undoes what a killed process left unfinished. It returns one line for
	// each action.
	Recover(ctx context.Context) (done []string, err error)
	// Orphans returns devices, files and volumes that carry the pool's mark but belong to no
	// volume. Each line says how to remove one.
	Orphans(ctx context.Context) ([]string, error)
}

// Sizes are the rules for the size of a volume.
type Sizes = csireq.Sizes

// Capabilities describes what a Pool supports besides plain volumes.
type Capabilities struct {
	// FSTypes are the supported file systems; the first is the default.
	FSTypes []string
	// CanCopy means that the pool supports snapshots, restores and clones.
	CanCopy bool
	// AtomicCopies means that a copy has the content of one instant. Otherwise the file system is
	// frozen during the copy, and a block volume in use is not copied.
	AtomicCopies bool
	// CopyFreezes means that a copy freezes a mounted file system itself, and fails if it is
	// already frozen. So the driver does not freeze, and there are no group snapshots, which need
	// several frozen volumes at once.
	CopyFreezes bool
	// PersistentAttach means that a volume stays attached when the machine restarts. Staging then
	// gives it a new device, which differs from the one in the publish context.
	PersistentAttach bool
	// Settings are the sorted keys that Modify accepts; none means that volumes cannot be modified.
	Settings []string
}

// groups reports whether several volumes can be copied at one instant.
func (c Capabilities) groups() bool { return c.CanCopy && !c.CopyFreezes }

// Capacity is the room in a pool, in bytes.
type Capacity struct {
	FreeBytes      int64 // for all volumes together
	MaxVolumeBytes int64 // for one volume
	MinVolumeBytes int64 // for one volume
	// Location names the storage that volumes allocate from while they are written. It is "" if
	// each volume has all of its space from the start.
	Location string
}

// Volume is a volume or a snapshot.
type Volume struct {
	// ID is derived from the name: "vol-" for a volume, "snap-" for a snapshot, and a digest.
	ID   string
	Name string // the requested name; "" if unknown
	// SizeBytes is the size of the device.
	SizeBytes int64
	// Source is the ID of the volume that this is a copy of, which may no longer exist; "" means
	// none.
	Source string
	// Group is the ID of a snapshot's group, or "". GroupSize is the number of its members. A group
	// with fewer snapshots is incomplete.
	Group     string
	GroupSize int
	// Created is the time of creation.
	Created time.Time
	// Parameters are the class parameters that the pool accepts, Settings the ones that can be
	// modified.
	Parameters, Settings map[string]string
	// Discard means that its file system discards freed blocks at once when it is mounted. It
	// follows from Parameters and Settings.
	Discard bool
	// Unfinished means that it is being created or removed, or was when the driver was killed.
	Unfinished bool
	// Trouble is a problem of the volume and how to fix it; "" means none.
	Trouble string
}

// IsSnapshot reports whether the volume is a snapshot.
func (v Volume) IsSnapshot() bool { return strings.HasPrefix(v.ID, csireq.SnapshotPrefix) }

// VolumeSpec describes a volume or a snapshot to create.
type VolumeSpec struct {
	ID, Name             string
	SizeBytes            int64   // at least that of From
	From                 *Volume // the source; nil means none
	Group                string  // see Volume
	GroupSize            int
	Parameters, Settings map[string]string
}

// Attachment is a volume that is a device on a node.
type Attachment struct {
	VolumeID string
	Node     string // as passed to RegisterNode, or a description of an unknown node
	// Device is the path of the device node on this machine. It is "" after a restart of the
	// machine, until Attach recreates the device. See Capabilities.PersistentAttach.
	Device   string
	ReadOnly bool
}

// location describes where a volume is attached.
func (a Attachment) location() string {
	if a.Device == "" {
		return a.Node + ", without a device since the machine restarted"
	}
	return a.Node + " as " + a.Device
}

func notFound(id string) error { return status.Errorf(codes.NotFound, "no volume %q", id) }
