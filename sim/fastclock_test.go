package sim_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestSpeedOfALiveWorld: sleeps, waits and timers of a fast world take less time, and end no sooner
// than they should.
func TestSpeedOfALiveWorld(t *testing.T) {
	t.Parallel()
	const speed = 100_000
	host := sim.NewLive(sim.LiveConfig{Speed: speed, Clock: clock.RealClock{}})
	defer host.Close()
	began := host.Now()
	passed := make(chan time.Duration, 10)
	report := func() { passed <- host.Now().Sub(began) }
	p := host.Process("p")
	p.Spawn("sleep", func(context.Context) { p.Sleep(time.Hour + 1); report() })
	p.Spawn("wait", func(context.Context) { p.Wait("nothing", time.Hour+1, func() bool { return false }); report() })
	timer := p.NewTimer("timer", report)
	timer.Reset(time.Minute)
	timer.Reset(time.Hour + 1)
	q := sim.NewQueue[string](p, sim.QueueConfig{Name: "queue"})
	q.Work(func(context.Context, string) error { report(); return nil })
	q.AddAfter("key", time.Hour+1)
	host.Start()
	for range 4 {
		if took := <-passed; took <= time.Hour {
			t.Errorf("an hour takes %v", took)
		}
	}
	testcheck.Equal(t, "more than that is over", 0, len(passed))
}
