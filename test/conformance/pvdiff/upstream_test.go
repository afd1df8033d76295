package pvdiff

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/kubernetes/pkg/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/upstreampv"
)

// period is the resync period of upstream's controller. It is longer than any back-off of its
// operations, so that a period without changes was a whole round of its work. In a period its
// recorder gains the right to one more event about an object.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff maxDurationBeforeRetry (2m2s); client-go
// tools/record defaultSpamQPS (one in 300 s).
const period = 310 * time.Second

// periodsMax is the number of resync periods in which upstream's controller must come to rest.
const periodsMax = 20

// upstream is a world with upstream's controller, in a bubble.
type upstream struct {
	*world
	events atomic.Int64
	stop   func()
}

// runUpstream executes a history with upstream's controller as long as the states are equal to
// want.
func runUpstream(t *testing.T, h history, want []histories.State) (execution histories.Execution[*world]) {
	synctest.Test(t, func(t *testing.T) {
		server := fake.NewServer(fake.Config{Now: time.Now, SkipBootstrap: true, Namespaces: namespaces})
		u := &upstream{world: newWorld(server, server.Client(sim.DirectCaller()))}
		u.faults.Caller = sim.DirectCaller()
		u.down = func(meanwhile func() error) error {
			u.stop()
			err := meanwhile()
			u.start(t)
			return err
		}
		u.start(t)
		execution.World = u.world
		for i, s := range h {
			u.faults.arm(s.fault)
			before := u.server.Revision()
			actErr := s.act.do(u.world)
			_, restarted := s.act.(restart)
			if changed := restarted || u.server.Revision() != before; changed && !u.settle() {
				execution.States = append(execution.States, histories.State{"not at rest"})
				break
			}
			u.faults.arm(fault{})
			execution.States = append(execution.States, append(u.observer.state(), answer(actErr)))
			execution.Undecided = u.observer.events.Undecided()
			if execution.Undecided != "" || !slices.Equal(execution.States[i], want[i]) {
				break
			}
		}
		u.stop()
	})
	return execution
}

func (u *upstream) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := upstreampv.Start(ctx, upstreampv.Config{
		Client:       histories.UniqueEvents(u.server, u.faults, &u.events),
		ResyncPeriod: period,
		Plugins:      []volume.VolumePlugin{&upstreamPlugin{storage: u.storage}},
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(period / 2) // now it has listed, and acts are half a period away from a resync
	synctest.Wait()
	u.stop = func() {
		cancel()
		wait()
	}
}

// settle lets time pass until a period has changed nothing. It reports whether one did.
func (u *upstream) settle() bool {
	for range periodsMax {
		synctest.Wait()
		revision, matched := u.observer.revision(), u.faults.matched()
		time.Sleep(period)
		u.observer.events.Refill()
		synctest.Wait()
		if u.observer.revision() == revision && u.faults.matched() == matched {
			return true
		}
	}
	return false
}
