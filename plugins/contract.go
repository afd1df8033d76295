package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// A Plugin is a kind of volume. Its methods make no calls and change nothing. They accept any
// volume, complete or not, but never nil.
//
// Upstream: pkg/volume VolumePlugin.
type Plugin interface {
	// Name returns the plugin's qualified name, such as "kubernetes.io/csi".
	Name() string
	// CanSupport reports whether the volume is of this plugin's kind.
	CanSupport(spec *Spec) bool
	// VolumeName returns the volume's name within the plugin. The name is the same wherever the
	// same volume is used. It may fail for a volume that is neither attached nor mounted for a
	// node.
	VolumeName(spec *Spec) (string, error)
}

// An Attacher is a plugin whose volumes are attached to a node before a kubelet can use them.
// Attach and Detach are idempotent. After an error of any class the volume may or may not be
// attached.
//
// Upstream: pkg/volume AttachableVolumePlugin, Attacher, Detacher.
type Attacher interface {
	// CanAttach reports whether this volume needs attaching.
	CanAttach(spec *Spec) (bool, error)
	// Attach makes the volume available on the node. It returns when the volume is attached. The
	// error may be a *DanglingError.
	Attach(ctx context.Context, spec *Spec, node types.NodeName) (devicePath string, err error)
	// Detach removes the volume, named as by VolumeName, from the node. It returns when the volume
	// is detached. Detaching a volume that is not attached succeeds.
	Detach(ctx context.Context, volumeName string, node types.NodeName) error
}

// An AttachState is the state of the attachment of a volume to a node.
type AttachState int

// The states of an attachment.
const (
	Detached AttachState = iota // the volume is not attached
	Changing                    // the volume is being attached or detached
	Attached                    // the volume is attached
)

// String returns the state as a word.
func (s AttachState) String() string { return [...]string{"detached", "changing", "attached"}[s] }

// A Verifier is an Attacher that can look up an attachment.
//
// Differs: upstream's VolumesAreAttached distinguishes only attached and not attached. It answers
// from a cache where it can, and takes an error for not attached.
//
// Upstream: pkg/volume Attacher.VolumesAreAttached.
type Verifier interface {
	// Watched reports whether VolumeAttachment objects show every change of an attachment. If so, a
	// caller that watches them need not call Verify periodically.
	Watched() bool
	// LastSeen returns the state that the plugin saw last, which may be stale. It makes no calls.
	LastSeen(volumeName string, node types.NodeName) AttachState
	// Verify looks up the current state. spec is nil if only the name of the volume is known. The
	// error matches ErrUnsupported if the state of this volume cannot be looked up.
	Verify(ctx context.Context, spec *Spec, volumeName string, node types.NodeName) (AttachState, error)
}

// A DeviceMounter is a plugin that mounts a volume once for a node before it is mounted for pods.
// All methods are idempotent.
//
// Upstream: pkg/volume DeviceMountableVolumePlugin, DeviceMounter, DeviceUnmounter.
type DeviceMounter interface {
	// CanDeviceMount reports whether this volume is mounted for the node first.
	CanDeviceMount(spec *Spec) (bool, error)
	// DeviceMountPath returns where the volume is mounted for the node.
	DeviceMountPath(spec *Spec) (string, error)
	// MountDevice mounts the attached volume for the node at path. The options are those of the pod
	// that uses it first.
	MountDevice(ctx context.Context, spec *Spec, path string, use MountOptions) error
	// UnmountDevice undoes MountDevice. It succeeds if there is nothing to undo.
	UnmountDevice(ctx context.Context, path string) error
}
