package kubelet

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
)

// creatingAfter is how long a pod waits for its volumes before its status says so.
//
// Differs: upstream reports this at once for each pod. Here, a pod whose volumes are mounted
// quickly saves a write.
const creatingAfter = time.Second

// podWaits are the deadlines of the pods that wait for their volumes. Without a waiting pod it sets
// no timer.
type podWaits struct {
	timer     *sim.Timer
	now       func() time.Time
	until     map[types.UID]time.Time
	order     []types.UID // in the order of begin; some have ended
	onExpired func(types.UID)
}

// newPodWaits returns an empty podWaits; onExpired is called when a pod's deadline passes.
func newPodWaits(c *sim.Process, over func(types.UID)) *podWaits {
	p := &podWaits{now: c.Now, until: map[types.UID]time.Time{}, onExpired: over}
	p.timer = c.NewBackgroundTimer("waiting pods", p.fire)
	return p
}

// begin starts the wait of a pod, unless it waits already.
func (p *podWaits) begin(uid types.UID) {
	if _, waits := p.until[uid]; waits {
		return
	}
	p.until[uid] = p.now().Add(creatingAfter)
	p.order = append(p.order, uid)
	p.resetTimer()
}

// end ends a pod's wait.
func (p *podWaits) end(uid types.UID) {
	if _, waits := p.until[uid]; waits {
		delete(p.until, uid)
		p.resetTimer()
	}
}

// expired reports whether a pod's deadline has passed.
func (p *podWaits) expired(uid types.UID) bool {
	until, waits := p.until[uid]
	return waits && !p.now().Before(until)
}

// fire calls onExpired for the pods whose deadline has passed.
func (p *podWaits) fire() {
	for len(p.order) > 0 && !p.now().Before(p.until[p.order[0]]) {
		if uid := p.order[0]; p.expired(uid) {
			p.onExpired(uid)
		}
		p.order = p.order[1:]
	}
	p.resetTimer()
}

// resetTimer sets the timer to the earliest deadline.
func (p *podWaits) resetTimer() {
	for len(p.order) > 0 && p.until[p.order[0]].IsZero() {
		p.order = p.order[1:]
	}
	if len(p.order) == 0 {
		p.timer.Stop()
		return
	}
	p.timer.ResetAt(p.until[p.order[0]])
}
