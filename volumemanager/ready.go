package volumemanager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// A kubelet that begins finds on its disk what the one before it mounted (see reconstruct.go). It does not know yet which of
// that its pods still need, so that it takes nothing away before it has been told of all of them (PodsKnown), has looked once
// at what each needs, and, where something was found, has seen its Node.
//
// What a pod has is not taken away either as long as one of its volumes could not be processed: it may be that very one.
//
// Differs: upstream counts a pod of which a volume cannot be processed as looked at, and takes away what it has mounted.
//
// Upstream: pkg/kubelet/volumemanager/reconciler readyToUnmount, populator HasAddedPods (v1.36).

// MarkAllPodsAdded tells that AddPod was called for all pods that run here as the kubelet begins. Before, nothing is unmounted, and
// nothing reported. The error says that the disk cannot be read: then it has to be told again.
func (m *Manager) MarkAllPodsAdded() error {
	if err := m.reconstruct(); err != nil {
		return err
	}
	m.allPodsAdded = true
	m.checkReady()
	return nil
}

// checkReady finds out whether things are ready now, and has all looked at when they are.
func (m *Manager) checkReady() {
	if m.ready || !m.allPodsAdded || m.desired.unpopulated > 0 || m.node == nil && m.actual.anyReconstructed() {
		return
	}
	m.ready = true
	m.finishReconstruction()
	m.cleanOrphans()
	for _, name := range slices.Sorted(maps.Keys(m.actual.volumes)) {
		m.volumes.Add(name)
	}
	m.cfg.ReportChanged()
}

// isIncomplete tells whether a pod is to run here, and not all of its volumes are known.
func (d *desiredState) isIncomplete(pod types.UID) bool {
	p, ok := d.pods[pod]
	return ok && len(p.volumes) < len(p.wanted)
}

// markPopulated notes that somebody has tried to find out what a pod needs.
func (d *desiredState) markPopulated(p *desiredPod) {
	if !p.populated {
		p.populated = true
		d.unpopulated--
	}
}
