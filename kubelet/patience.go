package kubelet

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
)

// creatingAfter is how long a pod waits for its volumes before its status says so.
//
// Differs: upstream says so at once, of each pod. Here a pod whose volumes come at once is spared a write.
const creatingAfter = time.Second

// patience are the pods that wait for their volumes, each until it has waited for long. While nobody waits no clock is looked at.
type patience struct {
	timer *sim.Timer
	now   func() time.Time
	until map[types.UID]time.Time
	order []types.UID // of beginning; some have ended
	over  func(types.UID)
}

// newPatience makes the patience of a kubelet; over is called when a pod has waited for long.
func newPatience(c *sim.Component, over func(types.UID)) *patience {
	p := &patience{now: c.Now, until: map[types.UID]time.Time{}, over: over}
	p.timer = c.NewBackgroundTimer("waiting pods", p.look)
	return p
}

// begin has a pod wait, if it does not wait already.
func (p *patience) begin(uid types.UID) {
	if _, waits := p.until[uid]; waits {
		return
	}
	p.until[uid] = p.now().Add(creatingAfter)
	p.order = append(p.order, uid)
	p.set()
}

// end ends a pod's wait.
func (p *patience) end(uid types.UID) {
	if _, waits := p.until[uid]; waits {
		delete(p.until, uid)
		p.set()
	}
}

// lost tells whether a pod has waited for long.
func (p *patience) lost(uid types.UID) bool {
	until, waits := p.until[uid]
	return waits && !p.now().Before(until)
}

// look tells of those that have waited for long.
func (p *patience) look() {
	for len(p.order) > 0 && !p.now().Before(p.until[p.order[0]]) {
		if uid := p.order[0]; p.lost(uid) {
			p.over(uid)
		}
		p.order = p.order[1:]
	}
	p.set()
}

// set sets the clock for who waits longest.
func (p *patience) set() {
	for len(p.order) > 0 && p.until[p.order[0]].IsZero() {
		p.order = p.order[1:]
	}
	if len(p.order) == 0 {
		p.timer.Stop()
		return
	}
	p.timer.ResetAt(p.until[p.order[0]])
}
