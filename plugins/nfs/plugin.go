package nfs

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// Name is the plugin's name.
const Name = "kubernetes.io/nfs"

// How long a recycler pod may run: the minimum, and the time per GiB.
//
// Upstream: pkg/controller/volume/persistentvolume/config/v1alpha1 MinimumTimeoutNFS,
// IncrementTimeoutNFS (v1.36).
const (
	recycleMin    = 300 * time.Second
	recyclePerGiB = 30 * time.Second
)

// Config configures a Plugin. The PersistentVolume controller needs Recycler only, a kubelet the
// rest.
type Config struct {
	Recycler *recycler.Recycler
	Process  *sim.Process
	FS       nodefs.FS // the node's disk
	Root     string    // the kubelet's directory on FS
	// Servers are the simulated servers of all volumes. With nil the kernel mounts volumes from real
	// servers, which needs a nodefs.Real and mount.nfs.
	Servers *Servers
}

// Plugin is the NFS plugin. It keeps no state in memory.
//
// Upstream: pkg/volume/nfs nfsPlugin (v1.36).
type Plugin struct{ cfg Config }

var (
	_ plugins.Recycler      = (*Plugin)(nil)
	_ plugins.Mounter       = (*Plugin)(nil)
	_ plugins.MountOptioner = (*Plugin)(nil)
	_ plugins.Reconstructor = (*Plugin)(nil)
)

// New returns the plugin of one process.
func New(cfg Config) *Plugin { return &Plugin{cfg} }

// Name returns "kubernetes.io/nfs".
func (p *Plugin) Name() string { return Name }

// CanSupport reports whether the volume is exported by an NFS server.
func (p *Plugin) CanSupport(spec *plugins.Spec) bool {
	source, _ := sourceOf(spec)
	return source != nil
}

//lint:ignore ST1005 the text is upstream's
var errNoSource = errors.New("Spec does not reference a NFS volume type")

// VolumeName returns the server's name and the path.
func (p *Plugin) VolumeName(spec *plugins.Spec) (string, error) {
	source, _ := sourceOf(spec)
	if source == nil {
		return "", errNoSource
	}
	return source.Server + "/" + source.Path, nil
}

// sourceOf returns what the volume is, and whether the pod may only read it. A PersistentVolume's
// own readOnly has no effect.
//
// Upstream: pkg/volume/nfs getVolumeSource (v1.36).
func sourceOf(spec *plugins.Spec) (source *corev1.NFSVolumeSource, readOnly bool) {
	switch {
	case spec.Volume != nil && spec.Volume.NFS != nil:
		return spec.Volume.NFS, spec.Volume.NFS.ReadOnly
	case spec.PersistentVolume != nil:
		return spec.PersistentVolume.Spec.NFS, spec.ReadOnly
	default:
		return nil, false
	}
}

// Recycle removes the volume's contents with a recycler pod.
//
// Upstream: pkg/volume/nfs nfsPlugin.Recycle (v1.36).
func (p *Plugin) Recycle(ctx context.Context, opts plugins.RecycleOptions) error {
	volume := opts.Spec.PersistentVolume
	if volume == nil || volume.Spec.NFS == nil {
		return errors.New("spec.PersistentVolumeSource.NFS is nil")
	}
	source := volume.Spec.NFS
	return p.cfg.Recycler.Run(ctx, recycler.Job{
		Volume: opts.Volume,
		Source: corev1.VolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: source.Server, Path: source.Path},
		},
		Deadline:    recycler.Deadline(volume, recycleMin, recyclePerGiB),
		RecordEvent: opts.RecordEvent,
		Acquire:     opts.Acquire,
	})
}
