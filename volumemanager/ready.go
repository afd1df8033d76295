package volumemanager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// A starting kubelet finds on its disk what an earlier one mounted (see reconstruct.go). It does
// not know yet which of it its pods need. So it unmounts nothing before it has all pods
// (MarkAllPodsAdded), has tried once to resolve the volumes of each and, if something was found or
// a plugin is awaited, has seen its Node.
//
// It keeps everything that a pod has as long as one of the pod's volumes could not be processed: it
// may be that very one.
//
// Differs: upstream counts such a pod as processed, and unmounts what it has.
//
// Upstream: pkg/kubelet/volumemanager/reconciler readyToUnmount, populator HasAddedPods (v1.36).

// MarkAllPodsAdded records that AddPod was called for all pods that run here as the kubelet starts.
// Before it, nothing is unmounted or reported. It fails if the disk cannot be read, and must then
// be called again.
func (m *Manager) MarkAllPodsAdded() error {
	if err := m.reconstruct(); err != nil {
		return err
	}
	m.allPodsAdded = true
	m.checkReady()
	return nil
}

// checkReady checks whether unmounting may begin, and if so requeues all volumes.
func (m *Manager) checkReady() {
	if m.ready || !m.allPodsAdded || m.desired.unpopulated > 0 ||
		m.node == nil && (m.actual.anyReconstructed() || m.awaits("")) {
		return
	}
	m.ready = true
	m.findInUse()
	m.finishReconstruction()
	m.cleanOrphans()
	for _, name := range slices.Sorted(maps.Keys(m.actual.volumes)) {
		m.volumes.Add(name)
	}
	m.cfg.ReportChanged()
}

// isIncomplete reports whether a pod should run here and not all of its volumes are resolved.
func (d *desiredState) isIncomplete(pod types.UID) bool {
	p, ok := d.pods[pod]
	return ok && len(p.volumes) < len(p.wanted)
}

// markPopulated records that the volumes of a pod were resolved, or failed to be, once.
func (d *desiredState) markPopulated(p *desiredPod) {
	if !p.populated {
		p.populated = true
		d.unpopulated--
	}
}
