package volumemanager

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// MountedVolume is a volume that a pod has, mounted or as a device.
//
// Upstream: pkg/kubelet/container VolumeInfo (v1.36).
type MountedVolume struct {
	Name     string // in the pod
	SpecName string // of the volume: that of its PersistentVolume, if it has one
	ReadOnly bool
	Block    bool // it is there as a device
	Plugin   plugins.Capabilities
}

// MountedVolumes are the volumes of a pod that it wants and that are there, sorted by name. A pod that was not added has none.
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
		all = append(all, MountedVolume{
			Name: outerName, SpecName: spec.Name(), ReadOnly: spec.ReadOnly, Block: v.block, Plugin: v.caps,
		})
	}
	return all
}

// IsAttached tells whether a volume is attached to the node, as far as the manager knows. One that needs no attaching is, as soon
// as a pod of the node wants it.
//
// Upstream: pkg/kubelet/volumemanager VolumeIsAttached (v1.36).
func (m *Manager) IsAttached(name corev1.UniqueVolumeName) bool {
	v := m.actual.volumes[name]
	return v != nil && !v.attaching
}
