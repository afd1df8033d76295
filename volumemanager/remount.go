package volumemanager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// remountVolumes sets up again the mounted volumes of a pod whose plugin requires it.
//
// Upstream: pkg/kubelet/volumemanager/cache MarkRemountRequired (v1.36).
func (m *Manager) remountVolumes(uid types.UID) {
	p, ok := m.desired.pods[uid]
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Values(p.volumes)) {
		wanted, actual := m.desired.volumes[name], m.actual.volumes[name]
		if actual == nil || actual.mountState(uid) != mounted {
			continue
		}
		if r := wanted.caps.Remounter; r != nil && r.RequiresRemount(wanted.pods[uid].spec) {
			actual.pods[uid].remount = true
			m.volumes.Add(name)
		}
	}
}

// RequiresRemount reports whether a pod has volumes that each AddPod sets up again.
//
// Upstream: pkg/volume VolumePlugin.RequiresRemount (v1.36).
func (m *Manager) RequiresRemount(uid types.UID) bool {
	p := m.desired.pods[uid]
	if p == nil {
		return false
	}
	for _, name := range p.volumes {
		if v := m.desired.volumes[name]; v.caps.Remounter != nil && v.caps.Remounter.RequiresRemount(v.pods[uid].spec) {
			return true
		}
	}
	return false
}
