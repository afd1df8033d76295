package volumemanager

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// LimitError says that a pod cannot run here, since the node has no place for one of its volumes.
//
// Upstream: pkg/kubelet/volumemanager VolumeAttachLimitExceededError (v1.36).
type LimitError struct{ WaitError }

// Error is upstream's text.
func (e *LimitError) Error() string {
	return "Node has reached its volume attachment limit, rejecting pod. " + e.WaitError.Error()
}

// scheduleLimitCheck has a pod looked at when it has waited for long, if one of its volumes may not find a place here.
func (m *Manager) scheduleLimitCheck(p *desiredPod) {
	if m.cfg.WaitFailed != nil && p.waitingSince.IsZero() {
		p.waitingSince = m.cfg.Process.Now()
		m.limitChecks.AddAfter(p.pod.UID, waitTimeout)
	}
}

// checkLimit asks why the volumes of a pod that waits are not attached, and rejects the pod if it is for lack of a place. It is
// done again as long as the pod waits.
//
// Differs: upstream asks of each pod whose volumes take so long; here of those whose drivers have a limit.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount (v1.36).
func (m *Manager) checkLimit(ctx context.Context, uid types.UID) error {
	p := m.desired.pods[uid]
	if p == nil || m.Mounted(uid) {
		return nil
	}
	exhausted := m.exhausted(ctx, p, p.waitingSince)
	switch {
	case m.desired.pods[uid] != p || m.Mounted(uid):
	case exhausted:
		m.cfg.WaitFailed(uid, &LimitError{*m.waitError(p.pod, context.DeadlineExceeded)})
	default:
		m.limitChecks.AddAfter(uid, waitTimeout)
	}
	return nil
}

// exhausted tells whether it is for lack of a place here that volumes of a pod are not attached. It leaves the component.
func (m *Manager) exhausted(ctx context.Context, p *desiredPod, since time.Time) bool {
	for _, outerName := range m.unattached(p) {
		v := m.desired.volumes[p.volumes[outerName]]
		if v == nil || v.caps.Limiter == nil {
			continue
		}
		exhausted, err := v.caps.Limiter.Exhausted(ctx, v.pods[p.pod.UID].spec, since)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "ask why a volume is not attached", "volume", v.name)
		}
		if m.desired.pods[p.pod.UID] != p || exhausted {
			return exhausted
		}
	}
	return false
}
