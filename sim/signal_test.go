package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volsim/volsim/sim"
)

// onBothHosts calls play with a process of each host. run runs the world until it is quiescent or all
// expected tasks have ended.
func onBothHosts(t *testing.T, play func(t *testing.T, p *sim.Process, run func(ended func() bool))) {
	t.Helper()
	t.Run("stepped", func(t *testing.T) {
		t.Parallel()
		h := sim.NewStepped(sim.SteppedConfig{})
		defer h.Close()
		play(t, h.Process("c"), func(func() bool) {
			if err := h.Run(); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		h := sim.NewLive(sim.LiveConfig{})
		defer h.Close()
		play(t, h.Process("c"), func(ended func() bool) {
			h.Start()
			if err := h.Wait(t.Context(), "the end", ended); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// The condition of a WaitOn is checked on a broadcast of its signal and at no other step of the process.
func TestBroadcastChecksOnlyItsWaiters(t *testing.T) {
	t.Parallel()
	onBothHosts(t, func(t *testing.T, p *sim.Process, run func(func() bool)) {
		const waiters, turns = 50, 200
		signals := make([]sim.Signal, waiters)
		open := make([]bool, waiters)
		asked := make([]int, waiters)
		var ended []int
		var finished atomic.Int32
		waiting := 0
		for i := range waiters {
			p.Spawn(fmt.Sprint("waiter ", i), func(context.Context) {
				first := true
				holds := p.WaitOn(&signals[i], "the door", 0, func() bool {
					if first {
						first = false
						waiting++
					}
					asked[i]++
					return open[i]
				})
				if holds {
					ended = append(ended, i)
					finished.Add(1)
				}
			})
		}
		p.Spawn("giver", func(context.Context) {
			p.Wait("all to wait", 0, func() bool { return waiting == waiters })
			for range turns {
				p.Sleep(time.Microsecond) // a step that no waiter depends on
			}
			signals[7].Broadcast() // without effect
			p.Sleep(time.Microsecond)
			for i := range waiters {
				open[i] = true
				signals[i].Broadcast()
				p.Wait("the one who was told", 0, func() bool { return len(ended) == i+1 })
			}
		})
		run(func() bool { return finished.Load() == waiters })
		if !slices.IsSorted(ended) || len(ended) != waiters {
			t.Errorf("ended in the order %v", ended)
		}
		for i, n := range asked {
			if n > 8 {
				t.Errorf("condition of waiter %d was checked %d times", i, n)
			}
		}
		for i := range signals {
			if signals[i].HasWaiters() {
				t.Errorf("signal %d still has waiters", i)
			}
		}
	})
}

// A WaitOn without a broadcast ends at its limit.
func TestWaitOnASignalTimesOut(t *testing.T) {
	t.Parallel()
	onBothHosts(t, func(t *testing.T, p *sim.Process, run func(func() bool)) {
		var s sim.Signal
		var ended atomic.Bool
		holds := true
		p.Spawn("waiter", func(context.Context) {
			holds = p.WaitOn(&s, "nothing", time.Millisecond, func() bool { return false })
			ended.Store(true)
		})
		run(ended.Load)
		if holds || s.HasWaiters() {
			t.Errorf("holds %v, has waiters %v", holds, s.HasWaiters())
		}
	})
}
