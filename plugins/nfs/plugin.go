package nfs

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
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

// Plugin is the NFS plugin. It keeps no state in memory.
//
// Upstream: pkg/volume/nfs nfsPlugin (v1.36).
type Plugin struct{ recycler *recycler.Recycler }

var _ plugins.Recycler = (*Plugin)(nil)

// New returns the plugin of one process.
func New(r *recycler.Recycler) *Plugin { return &Plugin{recycler: r} }

// Name returns "kubernetes.io/nfs".
func (p *Plugin) Name() string { return Name }

// CanSupport reports whether the volume is exported by an NFS server.
func (p *Plugin) CanSupport(spec *plugins.Spec) bool { return sourceOf(spec) != nil }

// VolumeName returns the server's name and the path.
func (p *Plugin) VolumeName(spec *plugins.Spec) (string, error) {
	source := sourceOf(spec)
	if source == nil {
		return "", errors.New("spec does not reference a NFS volume type")
	}
	return source.Server + "/" + source.Path, nil
}

func sourceOf(spec *plugins.Spec) *corev1.NFSVolumeSource {
	switch {
	case spec.Volume != nil && spec.Volume.NFS != nil:
		return spec.Volume.NFS
	case spec.PersistentVolume != nil:
		return spec.PersistentVolume.Spec.NFS
	default:
		return nil
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
	return p.recycler.Run(ctx, recycler.Job{
		Volume: opts.Volume,
		Source: corev1.VolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: source.Server, Path: source.Path},
		},
		Deadline:    recycler.Deadline(volume, recycleMin, recyclePerGiB),
		RecordEvent: opts.RecordEvent,
		Acquire:     opts.Acquire,
	})
}
