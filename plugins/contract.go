package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Plugin is what every kind of volume offers. Its methods ask nobody, take any volume, whole or not, but never nil, and change
// nothing.
//
// Upstream: pkg/volume VolumePlugin.
type Plugin interface {
	// Name is the plugin's qualified name, such as "kubernetes.io/csi".
	Name() string
	// CanSupport tells whether the volume is of this plugin's kind.
	CanSupport(spec *Spec) bool
	// VolumeName is the volume's name within the plugin: the same for the same volume wherever it is used. One that is neither
	// attached nor mounted for a node may have none, which is an error.
	VolumeName(spec *Spec) (string, error)
}

// Attacher is offered by plugins whose volumes are attached to a node before a kubelet can use them. Attach and Detach are
// idempotent. Whatever the class of their errors, the volume may be attached afterwards, or not.
//
// Upstream: pkg/volume AttachableVolumePlugin, Attacher, Detacher.
type Attacher interface {
	// CanAttach tells whether this very volume needs attaching.
	CanAttach(spec *Spec) (bool, error)
	// Attach makes the volume available on the node, and returns when it is. The error may be a *DanglingError.
	Attach(ctx context.Context, spec *Spec, node types.NodeName) (devicePath string, err error)
	// Detach takes the volume, named as by VolumeName, away from the node, and returns when it is gone. Not attached is
	// success.
	Detach(ctx context.Context, volumeName string, node types.NodeName) error
}

// AttachState is what there is of an attachment of a volume to a node.
type AttachState int

// The degrees of presence.
const (
	Detached AttachState = iota // nothing: the volume is not attached
	Changing                    // it is on its way to being attached or detached
	Attached                    // the volume is attached
)

// String gives the presence as a word.
func (p AttachState) String() string { return [...]string{"absent", "changing", "present"}[p] }

// Verifier is offered by attachers that know of an attachment by its name alone what became of it.
//
// Differs: upstream's VolumesAreAttached knows attached and not attached only, answers from a cache where it can, and takes
// an error for not attached.
//
// Upstream: pkg/volume Attacher.VolumesAreAttached.
type Verifier interface {
	// Watched tells whether VolumeAttachments show what becomes of attachments, so that who follows those need not ask from
	// time to time.
	Watched() bool
	// LastSeen is what the plugin saw last, which may be old. It asks nobody.
	LastSeen(volumeName string, node types.NodeName) AttachState
	// Verify asks what there is now.
	Verify(ctx context.Context, volumeName string, node types.NodeName) (AttachState, error)
}

// DeviceMounter is offered by plugins that mount a volume once for a node before it is mounted for pods. All is
// idempotent.
//
// Upstream: pkg/volume DeviceMountableVolumePlugin, DeviceMounter, DeviceUnmounter.
type DeviceMounter interface {
	// CanDeviceMount tells whether this very volume is mounted for the node first.
	CanDeviceMount(spec *Spec) (bool, error)
	// DeviceMountPath is where the volume is mounted for the node.
	DeviceMountPath(spec *Spec) (string, error)
	// MountDevice mounts the attached volume for the node at path, for the pod that uses it first.
	MountDevice(ctx context.Context, spec *Spec, path string, use MountOptions) error
	// UnmountDevice undoes MountDevice. Nothing there is success.
	UnmountDevice(ctx context.Context, path string) error
}
