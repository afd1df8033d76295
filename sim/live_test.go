package sim_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A user may signal its end after its last action. A Wait for that signal must be woken.
func TestWaitForTheEndOfAUser(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	asked := make(chan struct{}, 1)
	var ended atomic.Bool
	host.Process("user").User("", func(context.Context) {
		<-asked
		ended.Store(true)
	})
	host.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if it fails
	defer cancel()
	err := host.Wait(ctx, "the end", func() bool {
		defer func() {
			select {
			case asked <- struct{}{}:
			default:
			}
		}()
		return ended.Load()
	})
	if err != nil {
		t.Error(err)
	}
}

// A call that has seen a change is in the log after the write that made it, even if the change was
// made while the call was in progress.
func TestLogHasTheWriteBeforeItsReaders(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	caller := host.ExternalCaller()
	reading, changed := make(chan struct{}), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		caller.Call(trace.Action{Kind: trace.KindAPI, Verb: "get"}, func() trace.Outcome {
			close(reading)
			<-changed
			return trace.Outcome{}
		})
	})
	calls.Go(func() {
		sim.CallContext(t.Context(), caller, trace.Action{Kind: trace.KindAPI, Verb: "update"}, func(c *sim.Commit) trace.Outcome {
			<-reading
			c.Try(func() bool { close(changed); return true })
			for range 100_000 {
				runtime.Gosched() // the reader can return now, if nothing stops it
			}
			return trace.Outcome{}
		})
	})
	calls.Wait()
	if got := verbs(host.Log()); got != "update get" {
		t.Errorf("log: %s, want update get", got)
	}
}

// A write that made no change holds up no other write, and one that has made a change holds up the
// changes of others until it is in the log.
func TestCommitOfAWrite(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	caller := host.ExternalCaller()
	write := func(verb string, effect func(c *sim.Commit)) {
		sim.CallContext(t.Context(), caller, trace.Action{Kind: trace.KindAPI, Verb: verb}, func(c *sim.Commit) trace.Outcome {
			effect(c)
			return trace.Outcome{}
		})
	}
	yes := func() bool { return true }
	var second sync.WaitGroup
	write("update", func(c *sim.Commit) {
		if c.Try(func() bool { return false }) {
			t.Error("Try reports a change that was not made")
		}
		write("patch", func(c *sim.Commit) { c.Try(yes) }) // would wait for itself
		c.Try(yes)
		second.Go(func() { write("delete", func(c *sim.Commit) { c.Try(yes) }) })
		c.Try(yes) // a second change of the same write
		for range 100_000 {
			runtime.Gosched()
		}
	})
	second.Wait()
	if got := verbs(host.Log()); got != "patch update delete" {
		t.Errorf("log: %s, want patch update delete", got)
	}
}

func verbs(log *trace.Log) string {
	var out []string
	for _, r := range log.Records() {
		out = append(out, r.Verb)
	}
	return strings.Join(out, " ")
}
