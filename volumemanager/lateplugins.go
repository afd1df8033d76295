package volumemanager

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/plugins"
)

// Plugins may appear, be replaced and disappear while the kubelet runs. After a restart, what an
// earlier kubelet mounted with such a plugin is found on the disk before the plugin is there. It is
// left as it is, and reported in use if it was, until the plugin can identify it or is no longer
// awaited.
//
// Differs: upstream waits for all plugins in the first lookup, so that one that hangs blocks the
// kubelet.

// latePlugins are plugins that may appear after the start.
type latePlugins struct {
	scanned sets.Set[string]          // plugins whose device mounts have been looked for
	inUse   []corev1.UniqueVolumeName // volumes of awaited plugins that an earlier kubelet reported in use
}

// awaits reports whether a plugin may appear soon; "" asks for any.
func (m *Manager) awaits(plugin string) bool { return m.cfg.Awaits != nil && m.cfg.Awaits(plugin) }

// isLate reports whether a volume must wait for its plugin before it is cleaned up.
func (m *Manager) isLate(v *foundVolume) bool {
	return errors.Is(v.why, plugins.ErrNoPlugin) && m.awaits(v.plugin)
}

// PluginsChanged handles a change of the plugins, or of those that are awaited. Config.Plugins calls
// it for the former.
//
// Differs: upstream looks up a plugin for each operation.
//
// Upstream: pkg/volume FindPluginBySpec (v1.36).
func (m *Manager) PluginsChanged() {
	for _, v := range m.desired.volumes { // the order does not matter
		v.caps = m.newest(v.caps)
	}
	for _, v := range m.actual.volumes {
		v.caps = m.newest(v.caps)
	}
	if !m.scanned {
		return
	}
	found := m.reconstructLate()
	for _, uid := range slices.Sorted(maps.Keys(m.desired.pods)) {
		if m.desired.isIncomplete(uid) {
			m.pods.Add(uid)
		}
	}
	switch {
	case m.ready && found: // what was found may be unmounted only now
		m.ready = false
		m.checkReady()
	case m.ready:
		m.findInUse()
		m.cleanOrphans()
		m.cfg.ReportChanged()
	}
}

// newest returns the current plugin of the same name. A plugin that differs in what is attached or
// mounted for the node is used for other volumes only.
func (m *Manager) newest(old plugins.Capabilities) plugins.Capabilities {
	caps, err := m.cfg.Plugins.FindByName(old.Name())
	if err != nil || (caps.Attacher == nil) != (old.Attacher == nil) ||
		(caps.DeviceMounter == nil) != (old.DeviceMounter == nil) {
		return old
	}
	return caps
}

// reconstructLate identifies volumes whose plugin has appeared. It reports whether there were any.
func (m *Manager) reconstructLate() bool {
	before := len(m.actual.volumes)
	identified := false
	for _, uid := range slices.Sorted(maps.Keys(m.orphans.volumes)) {
		m.orphans.drop(uid, func(v *foundVolume) bool {
			if _, err := m.cfg.Plugins.FindByName(v.plugin); err != nil || v.cleaned || !errors.Is(v.why, plugins.ErrNoPlugin) {
				return false
			}
			v.why = m.addFoundVolume(*v)
			identified = identified || v.why == nil
			return v.why == nil
		})
	}
	for _, caps := range m.cfg.Plugins.All() {
		_ = m.reconstructDevices(caps) // the next change of the plugins tries again
	}
	return identified || len(m.actual.volumes) > before
}

// reconstructDevices adds the device mounts of a plugin to the actual state, once.
func (m *Manager) reconstructDevices(caps plugins.Capabilities) error {
	if caps.DeviceReconstructor == nil || m.late.scanned.Has(caps.Name()) {
		return nil
	}
	devices, err := caps.DeviceReconstructor.ReconstructDevices()
	if err != nil {
		return err
	}
	m.late.scanned.Insert(caps.Name())
	for _, device := range devices {
		m.addFoundDevice(caps, device)
	}
	return nil
}

// findInUse determines which volumes of awaited plugins an earlier kubelet reported in use.
func (m *Manager) findInUse() {
	m.late.inUse = nil
	if m.node == nil || !m.awaits("") {
		return
	}
	for _, name := range m.node.Status.VolumesInUse {
		if plugin, _, err := plugins.SplitUniqueName(name); err == nil && m.awaits(plugin) {
			m.late.inUse = append(m.late.inUse, name)
		}
	}
}
