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

// loopPeriod is the period of upstream's reconciler. It is ten times the default, which affects
// only times.
const loopPeriod = time.Second

// drainTime is how long operations of a stopped controller may last. A bubble ends only when all
// its goroutines have.
//
// Upstream: pkg/volume/csi csiTimeout (2 min).
const drainTime = 3 * time.Minute

// runUpstream executes a history with upstream's controller, in a bubble.
func runUpstream(t *testing.T, h history, want []histories.State) (execution histories.Execution[*world]) {
	synctest.Test(t, func(t *testing.T) {
		server := fake.NewServer(fake.Config{Now: time.Now, SkipBootstrap: true})
		w := newWorld(server, server.Client(sim.DirectCaller()), time.Now, histories.PassInBubble)
		w.faults.Caller = sim.DirectCaller()
		var events atomic.Int64
		var stop func()
		start := func() { stop = startUpstream(t, w, &events) }
		w.down = func(meanwhile func() error) error {
			stop()
			err := meanwhile()
			start()
			return err
		}
		execution = w.execute(h, start, want)
		stop()
		time.Sleep(drainTime)
	})
	return execution
}

func startUpstream(t *testing.T, w *world, events *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	timers := upstreamad.DefaultTimers
	timers.ReconcilerLoopPeriod = loopPeriod
	wait, err := upstreamad.Start(ctx, upstreamad.Config{
		Client: histories.UniqueEvents(w.server, w.faults, events), Timers: timers,
		DisableForceDetach: w.disableForceDetach,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		cancel()
		wait()
	}
}
