package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Mounter is offered by plugins that a kubelet can mount: all but the purely controlling ones. All is idempotent.
//
// Upstream: pkg/volume Mounter, Unmounter.
type Mounter interface {
	// MountPath is where the volume appears for the pod.
	MountPath(specName string, pod types.UID) string
	// SetUp makes the volume appear for the pod at MountPath.
	SetUp(ctx context.Context, spec *Spec, pod *corev1.Pod, use MountOptions) error
	// TearDown undoes SetUp. Nothing there is success.
	TearDown(ctx context.Context, specName string, pod types.UID) error
}

// MountOptions is how a pod uses a volume, and what is known of the volume when it is mounted for it.
//
// Upstream: pkg/volume MounterArgs, DeviceMounterArgs (v1.36).
type MountOptions struct {
	DevicePath          string                         // what attaching returned
	FSGroup             *int64                         // whose files the volume's are to be; nil: as they are
	FSGroupChangePolicy *corev1.PodFSGroupChangePolicy // nil: always
	SELinuxLabel        string                         // to be mounted with; "": none
	Remount             bool                           // it is mounted and in use: failing must leave it so
	Reconstructed       bool                           // it was mounted before the kubelet began: failing must leave it so
	Recorder            record.EventRecorder           // for the pod's events; nil: nobody is told
}

// Remounter is offered by mounters whose volumes are set up again, while they are mounted, each time the pod is looked at.
//
// Upstream: pkg/volume VolumePlugin.RequiresRemount (v1.36).
type Remounter interface {
	// RequiresRemount tells whether this very volume is.
	RequiresRemount(spec *Spec) bool
}

// MountOptioner is offered by mounters that take the mount options of a PersistentVolume.
//
// Upstream: pkg/volume VolumePlugin.SupportsMountOption (v1.36).
type MountOptioner interface {
	// SupportsMountOption tells whether the plugin takes any.
	SupportsMountOption() bool
}

// SELinuxMounter is offered by mounters that can mount a volume with an SELinux label.
//
// Upstream: pkg/volume VolumePlugin.SupportsSELinuxContextMount (v1.36).
type SELinuxMounter interface {
	// SupportsSELinuxContextMount tells whether this very volume can be.
	SupportsSELinuxContextMount(spec *Spec) (bool, error)
}

// Reconstructor is offered by mounters that can tell from the node's disk alone what was mounted for a pod: all that a kubelet
// has that begins anew.
//
// Upstream: pkg/volume VolumePlugin.ConstructVolumeSpec (v1.36).
type Reconstructor interface {
	// Reconstruct returns the volume that SetUp has made appear for the pod, or begun to. The error matches fs.ErrNotExist
	// where nothing is known of one.
	Reconstruct(specName string, pod types.UID) (Reconstructed, error)
}

// Reconstructed is a volume as the node's disk tells of it.
//
// Upstream: pkg/volume ReconstructedVolume (v1.36).
type Reconstructed struct {
	// Spec is as much of the volume as is needed to undo its mounting: its Name is the one that was asked for, and its VolumeName
	// and DeviceMountPath, or its map paths, are those of the volume that was set up.
	Spec         *Spec
	SELinuxLabel string // that it was mounted with
}
