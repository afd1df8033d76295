package volumemanager

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// A LimitError says that a pod cannot run here because one of its volumes exceeds the node's attach
// limit.
//
// Upstream: pkg/kubelet/volumemanager VolumeAttachLimitExceededError (v1.36).
type LimitError struct{ waitError }

// Error returns upstream's text.
func (e *LimitError) Error() string {
	return "Node has reached its volume attachment limit, rejecting pod. " + e.waitError.Error()
}

// scheduleLimitCheck schedules checkLimit for a pod with a volume of a driver that has a limit.
func (m *Manager) scheduleLimitCheck(p *desiredPod) {
	if m.cfg.WaitFailed != nil && p.waitingSince.IsZero() {
		p.waitingSince = m.cfg.Process.Now()
		m.limitChecks.AddAfter(p.pod.UID, waitTimeout)
	}
}

// checkLimit finds out why the volumes of a waiting pod are not attached, and rejects the pod if
// the node's limit is exceeded. It is repeated as long as the pod waits.
//
// Differs: upstream checks every pod that waits this long; here only those with volumes of drivers
// that have a limit.
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

// exhausted reports whether volumes of a pod are not attached because the node's limit is exceeded.
// It is a suspension point.
func (m *Manager) exhausted(ctx context.Context, p *desiredPod, since time.Time) bool {
	for _, outerName := range m.unattached(p) {
		v := m.desired.volumes[p.volumes[outerName]]
		if v == nil || v.caps.Limiter == nil {
			continue
		}
		exhausted, err := v.caps.Limiter.Exhausted(ctx, v.pods[p.pod.UID].spec, since)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "check attach limit", "volume", v.name)
		}
		if m.desired.pods[p.pod.UID] != p || exhausted {
			return exhausted
		}
	}
	return false
}
