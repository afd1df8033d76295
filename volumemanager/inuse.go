package volumemanager

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// VolumesInUse returns the value of node.status.volumesInUse, sorted: the attachable volumes that
// pods want or that are here, and those of awaited plugins that an earlier kubelet reported.
//
// Upstream: pkg/kubelet/volumemanager GetVolumesInUse (v1.36).
func (m *Manager) VolumesInUse() []corev1.UniqueVolumeName {
	names := make([]corev1.UniqueVolumeName, 0, len(m.desired.volumes)+len(m.actual.volumes))
	for name, v := range m.desired.volumes {
		if v.attachable {
			names = append(names, name)
		}
	}
	for name, v := range m.actual.volumes {
		if v.attachable {
			names = append(names, name)
		}
	}
	names = append(names, m.late.inUse...)
	slices.Sort(names)
	return slices.Compact(names)
}

// NeedsReport reports whether VolumesInUse must be patched into the Node's status. This is so if it
// differs from the last report, or if a volume waits for a report that began after it was wanted. A
// starting kubelet reports nothing before it knows its pods: the report would lack what it is about
// to need.
func (m *Manager) NeedsReport() bool {
	if !m.ready {
		return false
	}
	for _, v := range m.desired.volumes { // the order does not matter
		if v.attachable && !v.reported && m.isAwaited(v.name) {
			return true
		}
	}
	return !m.reportedOnce || !m.matchesLastReport()
}

// matchesLastReport reports whether VolumesInUse is what was last reported.
func (m *Manager) matchesLastReport() bool {
	inUse := 0
	for name, v := range m.desired.volumes {
		if v.attachable {
			if !m.lastReport.Has(name) {
				return false
			}
			inUse++
		}
	}
	for name, v := range m.actual.volumes {
		if wanted := m.desired.volumes[name]; v.attachable && (wanted == nil || !wanted.attachable) {
			if !m.lastReport.Has(name) {
				return false
			}
			inUse++
		}
	}
	for _, name := range m.late.inUse {
		if m.desired.volumes[name] == nil && m.actual.volumes[name] == nil {
			if !m.lastReport.Has(name) {
				return false
			}
			inUse++
		}
	}
	return inUse == m.lastReport.Len()
}

// MarkReportedInUse records that a report that began with the given volumes has succeeded, and that
// the patch returned node. Only then do these volumes count as reported: while a report without a
// volume may be in flight, the volume must not be mounted.
//
// Upstream: pkg/kubelet/volumemanager MarkVolumesAsReportedInUse (v1.36).
func (m *Manager) MarkReportedInUse(volumes []corev1.UniqueVolumeName, node *corev1.Node) {
	m.lastReport, m.reportedOnce = sets.New(volumes...), true
	m.NodeUpdated(node) // first: what counts as reported is never judged by an older Node
	for _, name := range volumes {
		if v := m.desired.volumes[name]; v != nil && !v.reported {
			v.reported = true
			m.volumes.Add(name)
		}
	}
}

// NodeUpdated takes the node's own Node object, as watched or as returned by a patch. It ignores
// objects older than the newest one.
func (m *Manager) NodeUpdated(node *corev1.Node) {
	seen := revision(node)
	if seen <= m.nodeRevision {
		return
	}
	m.node, m.nodeRevision = node, seen
	changed := m.listed.read(node.Status.VolumesAttached)
	m.checkReady()
	if m.reportedOnce && !m.lastReport.Equal(sets.New(node.Status.VolumesInUse...)) {
		m.reportLost(node)
	}
	for _, name := range changed {
		if m.desired.volumes[name] != nil && m.isAwaited(name) {
			m.volumes.Add(name)
		}
	}
}

// reportLost handles a Node that is newer than the last report and differs from it: it was created
// again or overwritten.
func (m *Manager) reportLost(node *corev1.Node) {
	m.reportedOnce = false
	inUse := sets.New(node.Status.VolumesInUse...)
	for name, v := range m.desired.volumes {
		v.reported = v.reported && inUse.Has(name)
	}
	m.cfg.ReportChanged()
}

// revision returns the object's resourceVersion as a number.
func revision(object metav1.Object) int64 {
	n, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("volumemanager: %T %s has resourceVersion %q: %v", object, object.GetName(),
			object.GetResourceVersion(), err))
	}
	return n
}

// isAwaited reports whether a desired volume is not here yet.
func (m *Manager) isAwaited(name corev1.UniqueVolumeName) bool {
	v := m.actual.volumes[name]
	return v == nil || v.reconstructed
}

// attached reports whether the volume is reported in use and the Node, not older than that report,
// lists it as attached. An older Node does not count: the controller may have started to detach
// before it saw the report.
//
// Upstream: pkg/volume/util/operationexecutor GenerateVerifyControllerAttachedVolumeFunc (v1.36).
func (m *Manager) attached(name corev1.UniqueVolumeName) bool {
	v := m.desired.volumes[name]
	if v == nil || !v.reported {
		return false
	}
	_, listed := m.devicePath(name)
	return listed
}

// devicePath returns the volume's device path as the Node lists it.
func (m *Manager) devicePath(name corev1.UniqueVolumeName) (path string, listed bool) {
	path, listed = m.listed.paths[name]
	return path, listed
}

// A listing is what the Node lists as attached.
type listing struct {
	list  []corev1.AttachedVolume // as the Node has it
	paths map[corev1.UniqueVolumeName]string
}

// read replaces the list and returns the volumes that were added or removed, sorted.
func (l *listing) read(list []corev1.AttachedVolume) []corev1.UniqueVolumeName {
	if slices.Equal(l.list, list) {
		return nil
	}
	before := l.paths
	l.list, l.paths = list, make(map[corev1.UniqueVolumeName]string, len(list))
	var changed []corev1.UniqueVolumeName
	for _, v := range list {
		if _, twice := l.paths[v.Name]; twice {
			continue
		}
		l.paths[v.Name] = v.DevicePath
		if _, was := before[v.Name]; !was {
			changed = append(changed, v.Name)
		}
	}
	for name := range before {
		if _, is := l.paths[name]; !is {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}
