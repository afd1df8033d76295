package addiff

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/upstreamad"
)

// loopPeriod is how often upstream's controller looks at everything. It is ten times what it is by default, which makes
// nothing but time.
const loopPeriod = time.Second

// leftover is how long what a controller has begun may go on after its end: a bubble may end when nobody is left in it.
//
// Upstream: pkg/volume/csi csiTimeout (2 min).
const leftover = 3 * time.Minute

// upstream is a world with upstream's controller, in a bubble.
type upstream struct {
	server *fake.Server
	faults *faults
	events atomic.Int64
	stop   func()
}

// liveUpstream has upstream's controller live through a history for as long as its states are as wanted, or all of it if
// want is nil.
func liveUpstream(t *testing.T, h history, want []state) (l life) {
	synctest.Test(t, func(t *testing.T) {
		w := &upstream{faults: newFaults()}
		w.faults.Caller = sim.DirectCaller()
		w.server = fake.NewServer(fake.Config{Now: time.Now, SkipBootstrap: true})
		u := newUser(w.server, w.server.Client(sim.DirectCaller()), observe(w.server), w.faults, time.Now)
		u.down = func(meanwhile func() error) error {
			w.stop()
			err := meanwhile()
			w.start(t, u)
			return err
		}
		l = u.live(h, func(u *user) { w.start(t, u) }, pass, want)
		w.stop()
		time.Sleep(leftover)
	})
	return l
}

// pass lets time pass.
func pass(d time.Duration) error {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
	return nil
}

func (w *upstream) start(t *testing.T, u *user) {
	ctx, cancel := context.WithCancel(t.Context())
	timers := upstreamad.DefaultTimers
	timers.ReconcilerLoopPeriod = loopPeriod
	wait, err := upstreamad.Start(ctx, upstreamad.Config{
		Client: histories.UniqueEvents(w.server.Client(w.faults), &w.events), Timers: timers, DisableForceDetach: !u.forces,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.stop = func() {
		cancel()
		wait()
	}
}
