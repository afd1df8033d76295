package local

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
)

// volumeDevices is the name of the directories of devices: one of the plugin, and one of each pod.
const volumeDevices = "volumeDevices"

// GlobalMapPath returns plugins/kubernetes.io~local-volume/volumeDevices/<volume> below the kubelet's
// root.
//
// Upstream: pkg/volume/local localVolume.GetGlobalMapPath (v1.36).
func (p *Plugin) GlobalMapPath(spec *plugins.Spec) (string, error) {
	return path.Join(p.devicesDir(), spec.Name()), nil
}

func (p *Plugin) devicesDir() string {
	return path.Join(p.cfg.Machine.Root, "plugins", utilstrings.EscapeQualifiedName(Name), volumeDevices)
}

// PodDeviceMapPath returns pods/<uid>/volumeDevices/kubernetes.io~local-volume below the kubelet's
// root, and the volume's name.
//
// Upstream: pkg/volume/local localVolume.GetPodDeviceMapPath (v1.36).
func (p *Plugin) PodDeviceMapPath(specName string, pod types.UID) (dir, link string) {
	return path.Join(p.podsDir(), string(pod), volumeDevices, utilstrings.EscapeQualifiedName(Name)), specName
}

// SetUpDevice does nothing: the device is there.
//
// Upstream: pkg/volume/local localVolumeMapper.SetUpDevice (v1.36).
func (p *Plugin) SetUpDevice(context.Context, *plugins.Spec, *corev1.Pod, plugins.MountOptions) (string, error) {
	return "", nil
}

// MapPodDevice returns the path of the device.
//
// Differs: it fails if there is no block device. Upstream's kubelet fails later, or gives the pod a
// file.
//
// Upstream: pkg/volume/local localVolumeMapper.MapPodDevice (v1.36).
func (p *Plugin) MapPodDevice(_ context.Context, spec *plugins.Spec, _ *corev1.Pod, _ plugins.MountOptions) (string, error) {
	isDevice, err := p.isBlockDevice(spec)
	if err != nil {
		return "", err
	}
	name := spec.PersistentVolume.Spec.Local.Path
	if !isDevice {
		return "", fmt.Errorf("path %q is a directory, not a block device", name)
	}
	return p.cfg.Machine.Path(name), nil
}

// UnmapPodDevice does nothing: the kubelet has removed what it mapped.
func (p *Plugin) UnmapPodDevice(context.Context, string, types.UID) error { return nil }

// TearDownDevice does nothing: the device stays.
func (p *Plugin) TearDownDevice(context.Context, *plugins.Spec) error { return nil }
