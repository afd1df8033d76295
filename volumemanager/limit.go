package volumemanager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// attachWait is how long a pod waits for its volumes before it is asked why.
//
// Upstream: pkg/kubelet/volumemanager podAttachAndMountTimeout (v1.36).
const attachWait = 2*time.Minute + 3*time.Second

// LimitError says that a pod cannot run here, since the node has no place for one of its volumes.
//
// Upstream: pkg/kubelet/volumemanager VolumeAttachLimitExceededError (v1.36).
type LimitError struct {
	Unmounted   []string // of the volumes that containers use, by their names in the pod, sorted
	Unattached  []string // of these
	Unprocessed []string // of which nobody knows yet what they are
}

// Error is upstream's text.
func (e *LimitError) Error() string {
	return fmt.Sprintf("Node has reached its volume attachment limit, rejecting pod. "+
		"unmounted volumes=%v, unattached volumes=%v, failed to process volumes=%v: %v",
		e.Unmounted, e.Unattached, e.Unprocessed, context.DeadlineExceeded)
}

// awaitPlace has a pod looked at when it has waited for long, if one of its volumes may not find a place here.
func (m *Manager) awaitPlace(p *desiredPod) {
	if m.cfg.Rejected != nil && p.waitsSince.IsZero() {
		p.waitsSince = m.cfg.Component.Now()
		m.places.AddAfter(p.pod.UID, attachWait)
	}
}

// checkPlace asks why the volumes of a pod that waits are not attached, and rejects the pod if it is for lack of a place. It is
// done again as long as the pod waits.
//
// Differs: upstream asks of each pod whose volumes take so long; here of those whose drivers have a limit.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount (v1.36).
func (m *Manager) checkPlace(ctx context.Context, uid types.UID) error {
	p := m.desired.pods[uid]
	if p == nil || m.Mounted(uid) {
		return nil
	}
	for _, outerName := range m.unattached(p) {
		v := m.desired.volumes[p.volumes[outerName]]
		if v.caps.Limiter == nil {
			continue
		}
		exhausted, err := v.caps.Limiter.Exhausted(ctx, v.pods[uid].spec, p.waitsSince)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "ask why a volume is not attached", "volume", v.name)
		}
		if m.desired.pods[uid] != p || m.Mounted(uid) {
			return nil
		}
		if exhausted {
			m.cfg.Rejected(uid, m.limitError(p))
			return nil
		}
	}
	m.places.AddAfter(uid, attachWait)
	return nil
}

func (m *Manager) limitError(p *desiredPod) *LimitError {
	e := &LimitError{Unattached: m.unattached(p), Unmounted: []string{}, Unprocessed: []string{}}
	for _, outerName := range slices.Sorted(maps.Keys(p.wanted)) {
		name, found := p.volumes[outerName]
		if !found {
			e.Unprocessed = append(e.Unprocessed, outerName)
		}
		if !found || !m.actual.mounted(name, p.pod.UID) {
			e.Unmounted = append(e.Unmounted, outerName)
		}
	}
	return e
}

// unattached are the volumes of a pod that are not attached, by their names in the pod, sorted.
func (m *Manager) unattached(p *desiredPod) []string {
	names := []string{}
	for _, outerName := range slices.Sorted(maps.Keys(p.volumes)) {
		if name := p.volumes[outerName]; m.desired.volumes[name].attachable && m.actual.volumes[name] == nil {
			names = append(names, outerName)
		}
	}
	return names
}
