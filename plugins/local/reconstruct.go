package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// Reconstruct identifies a volume by its mount point. Its path is known if the file system of a
// device is mounted for the node.
//
// Differs: upstream cannot determine where the volume is mounted for the node unless it is such a
// file system. After a reboot it therefore cleans up what it finds as an unknown volume.
//
// Upstream: pkg/volume/local ConstructVolumeSpec (v1.36).
func (p *Plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	there, err := p.cfg.Machine.FS.Exists(p.mountPath(specName, pod))
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	var spec *plugins.Spec
	if err == nil {
		spec, err = p.foundSpec(specName)
	}
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", specName, err)
	}
	return plugins.Reconstructed{Spec: spec}, nil
}

// foundSpec returns a volume with a file system.
func (p *Plugin) foundSpec(specName string) (*plugins.Spec, error) {
	mounts, err := p.cfg.Machine.FS.Mounts()
	if err != nil {
		return nil, err
	}
	spec := newSpec(specName, corev1.PersistentVolumeFilesystem)
	for _, m := range mounts {
		if m.Path == path.Join(p.mountsDir(), specName) {
			root := strings.TrimSuffix(p.cfg.Machine.Root, "/")
			spec.PersistentVolume.Spec.Local.Path = strings.TrimPrefix(m.Source, root)
		}
	}
	return spec, nil
}

func newSpec(name string, mode corev1.PersistentVolumeMode) *plugins.Spec {
	return &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			VolumeMode:             &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}},
		},
	}}
}

// ReconstructBlock identifies a raw device by the files that the kubelet creates for its pod.
//
// Upstream: pkg/volume/local ConstructBlockVolumeSpec (v1.36).
func (p *Plugin) ReconstructBlock(specName string, pod types.UID) (plugins.Reconstructed, error) {
	dir, link := p.PodDeviceMapPath(specName, pod)
	for _, at := range []string{path.Join(dir, link), path.Join(p.devicesDir(), specName, string(pod))} {
		switch _, err := p.cfg.Machine.FS.Stat(at); {
		case err == nil:
			return plugins.Reconstructed{Spec: newSpec(specName, corev1.PersistentVolumeBlock)}, nil
		case !errors.Is(err, fs.ErrNotExist):
			return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", specName, err)
		}
	}
	return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", specName, fs.ErrNotExist)
}

// ReconstructDevices returns the file systems of devices that are mounted for the node, and the
// devices that are mapped, or for which this began.
func (p *Plugin) ReconstructDevices() ([]plugins.ReconstructedDevice, error) {
	var found []plugins.ReconstructedDevice
	mounted, err := p.namesIn(p.mountsDir())
	if err != nil {
		return nil, err
	}
	for _, name := range mounted {
		spec, err := p.foundSpec(name)
		if err != nil {
			return nil, err
		}
		found = append(found, plugins.ReconstructedDevice{Path: path.Join(p.mountsDir(), name), Spec: spec})
	}
	mapped, err := p.namesIn(p.devicesDir())
	if err != nil {
		return nil, err
	}
	for _, name := range mapped {
		at := path.Join(p.devicesDir(), name)
		pods, err := p.namesIn(at)
		if err != nil {
			return nil, err
		}
		device := plugins.ReconstructedDevice{Path: at, Spec: newSpec(name, corev1.PersistentVolumeBlock), Block: true}
		for _, pod := range pods {
			device.Pods = append(device.Pods, types.UID(pod))
		}
		found = append(found, device)
	}
	return found, nil
}

// namesIn returns the names in a directory; none if there is no directory.
func (p *Plugin) namesIn(dir string) ([]string, error) {
	names, err := p.cfg.Machine.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return names, err
}
