package sim_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestCrashOfALiveProcess: tasks end where they are suspended: in a call, a sleep, a wait. Those that
// are ready do not begin.
func TestCrashOfALiveProcess(t *testing.T) {
	t.Parallel()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	victim, other := host.Process("victim"), host.Process("other")
	calling := make(chan struct{})
	var begun atomic.Int32
	var ends []string // belongs to the process
	task := func(name string, suspend func(ctx context.Context)) {
		victim.Spawn(name, func(ctx context.Context) {
			defer func() { ends = append(ends, name) }()
			begun.Add(1)
			suspend(ctx)
			t.Errorf("task %s continues", name)
		})
	}
	task("call", func(ctx context.Context) {
		victim.Call(trace.Action{Kind: trace.KindDriver, Verb: "hang"}, func() trace.Outcome {
			close(calling)
			<-ctx.Done() // as a driver's connection does
			return trace.Outcome{Err: ctx.Err()}
		})
	})
	task("sleep", func(context.Context) { victim.Sleep(time.Hour) })
	task("wait", func(context.Context) { victim.Wait("nothing", 0, func() bool { return false }) })
	victim.OnCrash(func() { ends = append(ends, "crash") })
	var signal sim.Signal
	task("wait on", func(context.Context) { victim.WaitOn(&signal, "nothing", time.Hour, func() bool { return false }) })
	ready := false
	victim.Worker("worker", func() bool { return ready }, func(context.Context) { t.Error("a worker begins") })
	victim.Delivery("cache", func() bool { return ready }, func() { t.Error("a delivery takes place") })
	other.Spawn("lives", func(context.Context) { other.Wait("nothing", 0, func() bool { return false }) })
	host.Start()
	<-calling
	testcheck.NoError(t, host.Wait(t.Context(), "the tasks to begin", func() bool { return begun.Load() == 4 }))
	host.Crash(victim)
	ready = true
	victim.Wake()
	victim.Spawn("late", func(context.Context) { t.Error("a task begins") })
	host.Crash(victim) // again
	testcheck.Equal(t, "tasks that were unwound, and the crash", 5, len(ends))
	testcheck.Equal(t, "the last end", "crash", ends[len(ends)-1])
	if got := verbs(host.Log()); !strings.HasSuffix(got, "hang") || strings.Contains(got, "woke") {
		t.Errorf("log: %s", got)
	}
	other.Wake()
}

// TestGoroutinesOfACrashedProcess: goroutines that a task started can make no calls.
func TestGoroutinesOfACrashedProcess(t *testing.T) {
	t.Parallel()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	p := host.Process("p")
	host.Start()
	write := func() trace.Outcome {
		return p.Call(trace.Action{Kind: trace.KindAPI, Verb: "update"}, func() trace.Outcome { return trace.Outcome{} })
	}
	testcheck.NoError(t, write().Err)
	host.Crash(p)
	if err := write().Err; err == nil {
		t.Error("a call of a crashed process succeeds")
	}
	testcheck.Equal(t, "log", "update", verbs(host.Log()))
}

// TestSetUp: no task runs before its process is complete, under either host.
func TestSetUp(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]sim.Host{"live": sim.NewLive(sim.LiveConfig{}), "stepped": sim.NewStepped(sim.SteppedConfig{})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer host.Close()
			host.Start()
			p := host.Process("p")
			complete := false // belongs to the process
			var ran atomic.Int32
			errInvalid := errors.New("invalid")
			err := p.SetUp(func() error {
				for range 10 {
					p.Spawn("task", func(context.Context) {
						if !complete {
							t.Error("a task runs before its process is complete")
						}
						ran.Add(1)
					})
				}
				complete = true
				return errInvalid
			})
			if !errors.Is(err, errInvalid) {
				t.Errorf("SetUp: %v", err)
			}
			testcheck.NoError(t, host.Wait(t.Context(), "the tasks to end", func() bool { return ran.Load() == 10 }))
		})
	}
}

// TestInjectIntoALiveWorld: an event is in the log after the last action of the process that it ends,
// and before the first one of the process that it starts.
func TestInjectIntoALiveWorld(t *testing.T) {
	t.Parallel()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	running := make(chan struct{}, 1)
	start := func() *sim.Process {
		p := host.Process("p")
		testcheck.NoError(t, p.SetUp(func() error {
			p.Spawn("task", func(ctx context.Context) {
				p.Call(trace.Action{Kind: trace.KindDriver, Verb: "hang"}, func() trace.Outcome {
					running <- struct{}{}
					<-ctx.Done()
					return trace.Outcome{}
				})
			})
			return nil
		}))
		return p
	}
	p := start()
	host.AddEventSource(func(string) []sim.Event {
		return []sim.Event{
			{Name: "crash p", Apply: func() { host.Crash(p); p = start() }},
			{Name: "nothing", Apply: func() {}},
		}
	})
	host.Start()
	for range 3 {
		<-running
		testcheck.Equal(t, "injected", true, host.Inject("crash p"))
	}
	<-running
	testcheck.Equal(t, "injected", true, host.Inject("nothing"))
	testcheck.Equal(t, "injected", false, host.Inject("reboot p"))
	testcheck.Equal(t, "events", "crash p, nothing", strings.Join(host.Events(), ", "))
	testcheck.Equal(t, "log", "hang crash hang crash hang crash nothing", verbs(host.Log()))
}
