package podfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// A source is a kind of volume whose files are made of something.
type source interface {
	// name returns the plugin's name.
	name() string
	// supports reports whether a volume is of this kind.
	supports(volume *corev1.Volume) bool
	// volumeName returns the name of a volume of this kind within the plugin.
	volumeName(volume *corev1.Volume) string
	// empty returns a source of this kind without content, for a volume found on the disk.
	empty() corev1.VolumeSource
	// memory reports whether the files are in memory.
	memory() bool
	// payload returns the files of a volume of this kind for a pod. group is the one that will own
	// them; nil: none.
	payload(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, group *int64) (Payload, error)
	// forget forgets what payload keeps for a pod.
	forget(pod types.UID)
}

// A plugin is the plugin of a source.
type plugin struct {
	disk   Disk
	source source
	memory int64 // of the node, in bytes
}

var (
	_ plugins.Mounter       = (*plugin)(nil)
	_ plugins.Remounter     = (*plugin)(nil)
	_ plugins.Reconstructor = (*plugin)(nil)
)

func (p *plugin) Name() string { return p.source.name() }

func (p *plugin) CanSupport(spec *plugins.Spec) bool {
	return spec.Volume != nil && p.source.supports(spec.Volume)
}

func (p *plugin) VolumeName(spec *plugins.Spec) (string, error) {
	if !p.CanSupport(spec) {
		return "", fmt.Errorf("not a volume of %s", p.Name())
	}
	return p.source.volumeName(spec.Volume), nil
}

// MountPath returns the directory of the volume.
func (p *plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.disk.Volume(p.Name(), spec.Name(), pod).Path()
}

// RequiresRemount reports whether a volume is written again at each sync: always, as the source may
// have changed.
func (p *plugin) RequiresRemount(*plugins.Spec) bool { return true }

// SetUp creates the directory of the volume and writes its files, or updates them. If it fails for
// a volume that the pod does not use yet, nothing remains, or the error is uncertain.
//
// Differs: upstream also removes a volume that a running pod uses, and leaves an incomplete one if it
// cannot remove it.
//
// Upstream: pkg/volume/configmap configMapVolumeMounter.SetUpAt, and those of secret, downwardapi
// and projected (v1.36).
func (p *plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	volume := p.disk.Volume(p.Name(), spec.Name(), pod.UID)
	return volume.classify(p.setUp(ctx, volume, spec, pod, use))
}

func (p *plugin) setUp(
	ctx context.Context, volume Volume, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions,
) error {
	files, err := p.source.payload(ctx, pod, spec.Volume, use.FSGroup)
	if err != nil {
		return err
	}
	err = volume.SetUp(ctx, Setup{
		Pod: pod, Memory: p.source.memory(), Size: memorySize(pod, nil, p.memory), FSGroup: use.FSGroup, Nested: true,
	})
	if err == nil {
		err = volume.Write(ctx, files, use.FSGroup)
	}
	if err != nil && !use.Remount && !use.Reconstructed {
		err = errors.Join(err, volume.TearDown())
	}
	return err
}

// TearDown removes the directory of the volume.
//
// Upstream: pkg/volume/util UnmountViaEmptyDir (v1.36).
func (p *plugin) TearDown(_ context.Context, specName string, pod types.UID) error {
	if err := p.disk.Volume(p.Name(), specName, pod).TearDown(); err != nil {
		return err
	}
	p.source.forget(pod)
	return nil
}

// Reconstruct identifies a volume by its directory.
//
// Upstream: pkg/volume/configmap ConstructVolumeSpec, and those of the others (v1.36).
func (p *plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	return p.disk.reconstruct(p.Name(), specName, pod, p.source.empty())
}

// reconstruct returns a volume of a pod whose directory exists. The error matches fs.ErrNotExist if
// it does not.
func (d Disk) reconstruct(
	plugin, name string, pod types.UID, source corev1.VolumeSource,
) (plugins.Reconstructed, error) {
	there, err := d.FS.Exists(d.Volume(plugin, name, pod).Path())
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", name, err)
	}
	return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{Name: name, VolumeSource: source}}}, nil
}
