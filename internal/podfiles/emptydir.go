package podfiles

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// emptyDir is the plugin of directories that live as long as their pods. It keeps no state in
// memory.
//
// Differs: the size of a directory on the disk is not limited, as nothing measures it. Huge pages
// are refused.
//
// Upstream: pkg/volume/emptydir emptyDirPlugin (v1.36).
type emptyDir struct {
	disk   Disk
	memory int64 // of the node, in bytes
}

var (
	_ plugins.Mounter       = (*emptyDir)(nil)
	_ plugins.Reconstructor = (*emptyDir)(nil)
)

func (*emptyDir) Name() string { return EmptyDirName }

func (*emptyDir) CanSupport(spec *plugins.Spec) bool {
	return spec.Volume != nil && spec.Volume.EmptyDir != nil
}

// VolumeName returns the name of the volume in its pod.
func (p *emptyDir) VolumeName(spec *plugins.Spec) (string, error) {
	if !p.CanSupport(spec) {
		return "", errors.New("spec does not reference an EmptyDir volume type")
	}
	return spec.Name(), nil
}

// MountPath returns the directory of the volume.
func (p *emptyDir) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.disk.Volume(EmptyDirName, spec.Name(), pod).Path()
}

// SetUp creates the directory, or mounts memory there. If it fails, nothing remains, or the error is
// uncertain.
//
// Upstream: pkg/volume/emptydir emptyDir.SetUpAt (v1.36).
func (p *emptyDir) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	from := spec.Volume.EmptyDir
	setup := Setup{Pod: pod, FSGroup: use.FSGroup}
	switch from.Medium {
	case corev1.StorageMediumDefault:
	case corev1.StorageMediumMemory:
		setup.Memory, setup.Size = true, memorySize(pod, from.SizeLimit, p.memory)
	default:
		return fmt.Errorf("unknown storage medium %q", from.Medium)
	}
	volume := p.disk.Volume(EmptyDirName, spec.Name(), pod.UID)
	return volume.classify(volume.SetUp(ctx, setup))
}

// TearDown removes the directory with its content.
//
// Upstream: pkg/volume/emptydir emptyDir.TearDownAt (v1.36).
func (p *emptyDir) TearDown(_ context.Context, specName string, pod types.UID) error {
	return p.disk.Volume(EmptyDirName, specName, pod).TearDown()
}

// Reconstruct identifies a volume by its directory.
//
// Upstream: pkg/volume/emptydir ConstructVolumeSpec (v1.36).
func (p *emptyDir) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	return p.disk.reconstruct(EmptyDirName, specName, pod,
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
}
