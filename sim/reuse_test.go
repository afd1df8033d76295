package sim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/volsim/volsim/sim"
)

// queueWorld runs a world with a queue in which keys wait, fail and wait for their time. It ends after so
// many steps (0: at rest), and returns its trace and what was handled.
func queueWorld(t *testing.T, pool *sim.Pool, steps int) (text string, handled []string) {
	t.Helper()
	host := sim.NewStepped(sim.SteppedConfig{Pool: pool})
	defer host.Close()
	p := host.Process("controller")
	p.ReuseMemory()
	q := sim.NewQueue[string](p, sim.QueueConfig{Name: "keys"})
	if q.Len() != 0 {
		t.Errorf("%d keys in a new queue", q.Len())
	}
	failed := false
	q.Work(func(_ context.Context, key string) error {
		handled = append(handled, key)
		if key == "b" && !failed {
			failed = true
			return errors.New("b fails once")
		}
		p.Spawn("operation", func(context.Context) { p.Sleep(time.Hour) })
		p.Sleep(time.Second)
		return nil
	})
	for _, key := range []string{"a", "b", "c"} {
		q.Add(key)
	}
	q.AddAfter("later", time.Minute)
	for i := 0; steps == 0 || i < steps; i++ {
		if !host.Step() {
			break
		}
	}
	return host.Log().Text(), handled
}

// TestReusedQueuesAreEmpty checks that a world whose memory another one had runs as one without: nothing
// of a world that was cut is left in the queues, timers and tasks of the next one.
func TestReusedQueuesAreEmpty(t *testing.T) {
	want, handled := queueWorld(t, nil, 0)
	if len(handled) < 4 {
		t.Fatalf("handled %v: want all keys", handled)
	}
	pool := &sim.Pool{Memory: true}
	defer pool.Close()
	for cut := range 12 {
		queueWorld(t, pool, cut)
		if got, _ := queueWorld(t, pool, 0); got != want {
			t.Errorf("after a world of %d steps:\n%s\nwant:\n%s", cut, got, want)
		}
	}
}
