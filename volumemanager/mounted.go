package volumemanager

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// A MountedVolume is a volume that a pod has, mounted or as a device.
//
// Upstream: pkg/kubelet/container VolumeInfo (v1.36).
type MountedVolume struct {
	Name     string // in the pod
	SpecName string // name of the PersistentVolume, if it has one
	ReadOnly bool
	Block    bool   // it is a device
	Path     string // where it is for the pod; "" for a device
	Plugin   plugins.Capabilities
}

// MountedVolumes returns the volumes of a pod that it wants and has mounted, sorted by name. It
// returns none for a pod that was not added.
//
// Upstream: pkg/kubelet/volumemanager GetMountedVolumesForPod (v1.36).
func (m *Manager) MountedVolumes(uid types.UID) []MountedVolume {
	p := m.desired.pods[uid]
	if p == nil {
		return nil
	}
	var all []MountedVolume
	for _, outerName := range slices.Sorted(maps.Keys(p.volumes)) {
		name := p.volumes[outerName]
		if !m.actual.mounted(name, uid) {
			continue
		}
		v := m.desired.volumes[name]
		spec := v.pods[uid].spec
		found := MountedVolume{
			Name: outerName, SpecName: spec.Name(), ReadOnly: spec.ReadOnly, Block: v.block, Plugin: v.caps,
		}
		if !v.block {
			found.Path = v.caps.Mounter.MountPath(spec, uid)
		}
		all = append(all, found)
	}
	return all
}

// IsAttached reports whether a volume is attached to the node, as far as the manager knows. A
// volume that needs no attach counts as attached once a pod of the node wants it.
//
// Upstream: pkg/kubelet/volumemanager VolumeIsAttached (v1.36).
func (m *Manager) IsAttached(name corev1.UniqueVolumeName) bool {
	v := m.actual.volumes[name]
	return v != nil && !v.attaching
}
