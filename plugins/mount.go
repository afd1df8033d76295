package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// A Mounter is a plugin whose volumes a kubelet can mount. All methods are idempotent.
//
// Upstream: pkg/volume Mounter, Unmounter.
type Mounter interface {
	// MountPath returns where the volume is for the pod: where SetUp mounts it or, if nothing is
	// mounted, the place on the node's disk.
	MountPath(spec *Spec, pod types.UID) string
	// SetUp mounts the volume for the pod at MountPath.
	SetUp(ctx context.Context, spec *Spec, pod *corev1.Pod, use MountOptions) error
	// TearDown undoes SetUp. It succeeds if there is nothing to undo.
	TearDown(ctx context.Context, specName string, pod types.UID) error
}

// MountOptions describe how a pod uses a volume, and what is known of the volume when it is
// mounted.
//
// Upstream: pkg/volume MounterArgs, DeviceMounterArgs (v1.36).
type MountOptions struct {
	DevicePath          string                         // as returned by Attach
	FSGroup             *int64                         // the group that must own the files; nil: no change
	FSGroupChangePolicy *corev1.PodFSGroupChangePolicy // nil: always
	SELinuxLabel        string                         // to mount with; "": none
	Remount             bool                           // mounted and in use: a failure must not change that
	Reconstructed       bool                           // mounted by an earlier kubelet: same
	Recorder            record.EventRecorder           // for the pod's events; nil: no events
}

// A Remounter is a Mounter some of whose volumes are set up again, while mounted, at each sync of
// the pod.
//
// Upstream: pkg/volume VolumePlugin.RequiresRemount (v1.36).
type Remounter interface {
	// RequiresRemount reports whether this volume is one of them.
	RequiresRemount(spec *Spec) bool
}

// A MountOptioner is a Mounter that accepts the mount options of a PersistentVolume.
//
// Upstream: pkg/volume VolumePlugin.SupportsMountOption (v1.36).
type MountOptioner interface {
	// SupportsMountOption reports whether the plugin accepts mount options.
	SupportsMountOption() bool
}

// A MountChecker is a Mounter that can tell before a mount that it will fail. The kubelet asks it
// before anything else is done for the pod.
//
// Upstream: pkg/volume VolumePlugin.NewMounter (v1.36), whose error it is.
type MountChecker interface {
	// CheckMount returns why the volume cannot be mounted, or nil. It changes nothing.
	CheckMount(spec *Spec) error
}

// An SELinuxMounter is a Mounter that can mount a volume with an SELinux label.
//
// Upstream: pkg/volume VolumePlugin.SupportsSELinuxContextMount (v1.36).
type SELinuxMounter interface {
	// SupportsSELinuxContextMount reports whether this volume can be mounted with a label.
	SupportsSELinuxContextMount(spec *Spec) (bool, error)
}

// A Reconstructor is a Mounter that can determine from the node's disk alone what was mounted for a
// pod. A restarted kubelet has no other source.
//
// Upstream: pkg/volume VolumePlugin.ConstructVolumeSpec (v1.36).
type Reconstructor interface {
	// Reconstruct returns the volume that SetUp has mounted for the pod, or begun to mount. The
	// error matches fs.ErrNotExist if the disk holds no record of one.
	Reconstruct(specName string, pod types.UID) (Reconstructed, error)
}

// Reconstructed is a volume as recorded on the node's disk.
//
// Upstream: pkg/volume ReconstructedVolume (v1.36).
type Reconstructed struct {
	// Spec is as much of the volume as is needed to unmount it. Its Name is the name that was asked
	// for. Its VolumeName and its DeviceMountPath, or its map paths, are those of the volume that
	// was set up.
	Spec         *Spec
	SELinuxLabel string // with which it was mounted
}
