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

// onBothHosts plays with a component of each host; run lets it move until nothing is left to happen, or what was to end has.
func onBothHosts(t *testing.T, play func(t *testing.T, c *sim.Process, run func(ended func() bool))) {
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

// Who waits on a signal is asked when it is given, and at no other turn of the component.
func TestSignalAsksThoseWhoWaitOnIt(t *testing.T) {
	t.Parallel()
	onBothHosts(t, func(t *testing.T, c *sim.Process, run func(func() bool)) {
		const waiters, turns = 50, 200
		signals := make([]sim.Signal, waiters)
		open := make([]bool, waiters)
		asked := make([]int, waiters)
		var ended []int
		var finished atomic.Int32
		waiting := 0
		for i := range waiters {
			c.Spawn(fmt.Sprint("waiter ", i), func(context.Context) {
				first := true
				holds := c.WaitOn(&signals[i], "the door", 0, func() bool {
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
		c.Spawn("giver", func(context.Context) {
			c.Wait("all to wait", 0, func() bool { return waiting == waiters })
			for range turns {
				c.Sleep(time.Microsecond) // a turn that concerns nobody
			}
			signals[7].Broadcast() // in vain
			c.Sleep(time.Microsecond)
			for i := range waiters {
				open[i] = true
				signals[i].Broadcast()
				c.Wait("the one who was told", 0, func() bool { return len(ended) == i+1 })
			}
		})
		run(func() bool { return finished.Load() == waiters })
		if !slices.IsSorted(ended) || len(ended) != waiters {
			t.Errorf("ended in the order %v", ended)
		}
		for i, n := range asked {
			if n > 8 {
				t.Errorf("waiter %d was asked %d times", i, n)
			}
		}
		for i := range signals {
			if signals[i].HasWaiters() {
				t.Errorf("signal %d is awaited still", i)
			}
		}
	})
}

// A wait on a signal that is never given ends with its limit.
func TestWaitOnASignalTimesOut(t *testing.T) {
	t.Parallel()
	onBothHosts(t, func(t *testing.T, c *sim.Process, run func(func() bool)) {
		var s sim.Signal
		var ended atomic.Bool
		holds := true
		c.Spawn("waiter", func(context.Context) {
			holds = c.WaitOn(&s, "nothing", time.Millisecond, func() bool { return false })
			ended.Store(true)
		})
		run(ended.Load)
		if holds || s.HasWaiters() {
			t.Errorf("holds %v, awaited %v", holds, s.HasWaiters())
		}
	})
}
