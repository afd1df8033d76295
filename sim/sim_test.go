package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

func call(c sim.Caller, verb string, effect func()) {
	c.Call(trace.Action{Kind: trace.KindDriver, Verb: verb}, func() trace.Outcome {
		effect()
		return trace.Outcome{}
	})
}

// increments is a process of two tasks. Each adds one to a shared number n times, and reads before and
// writes after a call: the textbook lost update between tasks of one process.
func increments(p *sim.Process, n int, number *int) {
	for _, name := range []string{"a", "b"} {
		left := n
		p.Worker(name, func() bool { return left > 0 }, func(context.Context) {
			left--
			previous := *number
			call(p, "add", func() {})
			*number = previous + 1
		})
	}
}

func TestDefaultOrderIsFairAndFinishesWorkInFlight(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	number := 0
	increments(host.Process("c"), 3, &number)
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if number != 6 {
		t.Errorf("number = %d, want 6: in the default order no task interrupts another", number)
	}
}

func TestSteppedSeedsFindTheLostUpdate(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		host := sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(seed)})
		number := 0
		increments(host.Process("c"), 3, &number)
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
		if number < 6 {
			found++
		}
		host.Close()
	}
	if found == 0 {
		t.Error("none of 100 seeds interleaved the two tasks")
	}
}

func TestReplayHasTheSameTrace(t *testing.T) {
	run := func(chooser sim.Chooser) string {
		host := sim.NewStepped(sim.SteppedConfig{Chooser: chooser})
		defer host.Close()
		number := 0
		increments(host.Process("c"), 5, &number)
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
		return host.Log().Text()
	}
	for seed := range uint64(20) {
		recorder := &sim.Recorder{Chooser: sim.NewSeeded(seed)}
		want := run(recorder)
		if got := run(sim.NewSeeded(seed)); got != want {
			t.Fatalf("seed %d twice:\n%s", seed, cmp.Diff(want, got))
		}
		if got := run(&sim.Replay{Choices: recorder.Choices}); got != want {
			t.Fatalf("replay of seed %d:\n%s", seed, cmp.Diff(want, got))
		}
	}
}

func TestClockAdvancesOnlyWhenNoTaskCanRun(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c := host.Process("c")
	var order []string
	say := func(s string) { order = append(order, fmt.Sprintf("%s@%s", s, host.Now().Sub(sim.Epoch))) }
	late := c.NewTimer("late", func() { say("late") })
	late.Reset(6 * time.Minute)
	early := c.NewTimer("early", func() { say("early") })
	early.Reset(time.Second)
	stopped := c.NewTimer("stopped", func() { say("stopped") })
	stopped.Reset(time.Second)
	stopped.Stop()
	background := c.NewBackgroundTimer("resync", func() { say("resync") })
	background.Reset(10 * time.Minute)
	c.Spawn("sleeper", func(context.Context) {
		say("begin")
		c.Sleep(2 * time.Second)
		say("slept")
	})
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	want := []string{"begin@0s", "early@1s", "slept@2s", "late@6m0s"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestWaitEndsByConditionOrLimit(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c := host.Process("c")
	ready := false
	var got []bool
	c.Spawn("patient", func(context.Context) { got = append(got, c.Wait("ready", time.Hour, func() bool { return ready })) })
	c.Spawn("hasty", func(context.Context) { got = append(got, c.Wait("ready", time.Second, func() bool { return ready })) })
	c.NewTimer("later", func() { ready = true }).Reset(time.Minute)
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{false, true}, got); diff != "" {
		t.Errorf("hasty, then patient (-want +got):\n%s", diff)
	}
}

func TestWaitFailsWhenQuiescent(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	err := host.Wait(context.Background(), "the end of time", func() bool { return false })
	if !errors.Is(err, sim.ErrQuiescent) || !strings.Contains(err.Error(), "the end of time") {
		t.Errorf("error = %v, want ErrQuiescent with the name of the condition", err)
	}
}

func TestBoundOnSteps(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 100})
	defer host.Close()
	host.Process("c").Delivery("restless", func() bool { return true }, func() {})
	if err := host.Run(); !errors.Is(err, sim.ErrSteps) {
		t.Errorf("error = %v, want ErrSteps", err)
	}
}

func TestDeliveryMustNotSuspend(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c := host.Process("c")
	c.Delivery("rash", func() bool { return true }, func() { call(c, "get", func() {}) })
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "c/rash must not suspend") {
			t.Errorf("panic = %v, want one that names the task", r)
		}
	}()
	_ = host.Run()
}

func TestCloseUnwindsSuspendedTasks(t *testing.T) {
	for name, host := range hosts() {
		t.Run(name, func(t *testing.T) {
			c := host.Process("c")
			var began, unwound, ended atomic.Bool
			c.Spawn("stuck", func(context.Context) {
				defer unwound.Store(true)
				began.Store(true)
				call(c, "begin", func() {}) // conditions of Wait are checked after each action
				c.Sleep(time.Hour)
				ended.Store(true)
			})
			other := host.Process("other")
			other.Spawn("tick", func(context.Context) { call(other, "tick", func() {}) })
			host.Start()
			if s, ok := host.(*sim.Stepped); ok {
				for range 4 {
					s.Step()
				}
			} else if err := host.Wait(t.Context(), "task to begin", began.Load); err != nil {
				t.Fatal(err)
			}
			if !began.Load() {
				t.Fatal("the task did not begin")
			}
			host.Close()
			if s, ok := host.(*sim.Stepped); ok && s.Now().After(sim.Epoch) {
				return // the sleep ended before the host was closed
			}
			if !unwound.Load() || ended.Load() {
				t.Errorf("unwound = %v, ended = %v; want true, false", unwound.Load(), ended.Load())
			}
		})
	}
}

func hosts() map[string]sim.Host {
	return map[string]sim.Host{
		"live":    sim.NewLive(sim.LiveConfig{}),
		"stepped": sim.NewStepped(sim.SteppedConfig{}),
	}
}

func TestLiveMonitorRunsOneTaskAtATime(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	c := host.Process("c")
	inside, worst, done := 0, 0, 0
	var finished atomic.Int64
	for i := range 8 {
		c.Spawn(fmt.Sprint("task", i), func(context.Context) {
			for range 100 {
				inside++
				worst = max(worst, inside)
				inside--
				call(c, "leave", func() {})
				done++
			}
			finished.Add(1)
			call(c, "leave", func() {})
		})
	}
	host.Start()
	if err := host.Wait(t.Context(), "all tasks", func() bool { return finished.Load() == 8 }); err != nil {
		t.Fatal(err)
	}
	host.Close()
	if worst != 1 || done != 800 {
		t.Errorf("worst = %d, done = %d; want 1, 800", worst, done)
	}
}

func TestQueue(t *testing.T) {
	for name, host := range hosts() {
		t.Run(name, func(t *testing.T) {
			defer host.Close()
			c := host.Process("c")
			q := sim.NewQueue[string](c, sim.QueueConfig{Name: "keys", BackoffMin: time.Millisecond})
			var got []string
			var finished atomic.Bool
			failures := 3
			q.Work(func(_ context.Context, key string) error {
				got = append(got, key)
				if key == "again" && len(got) == 1 {
					q.Add(key) // while a worker handles it
					q.Add(key)
				}
				if key == "fails" && failures > 0 {
					failures--
					return errors.New("not yet")
				}
				if key == "fails" {
					finished.Store(true)
				}
				call(c, "done", func() {})
				return nil
			})
			q.Add("again")
			q.Add("again")
			q.Add("fails")
			host.Start()
			if err := host.Wait(t.Context(), "the last try", finished.Load); err != nil {
				t.Fatal(err)
			}
			host.Close()
			want := []string{"again", "fails", "again", "fails", "fails", "fails"}
			slices.Sort(got[1:])
			slices.Sort(want[1:])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("handled keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueueBackoffDoubles(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	q := sim.NewQueue[string](host.Process("c"), sim.QueueConfig{Name: "keys", BackoffMax: 30 * time.Millisecond})
	var at []time.Duration
	q.Work(func(context.Context, string) error {
		at = append(at, host.Now().Sub(sim.Epoch))
		if len(at) == 5 {
			return nil
		}
		return errors.New("no")
	})
	q.Add("k")
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	if diff := cmp.Diff([]time.Duration{0, 5 * ms, 15 * ms, 35 * ms, 65 * ms}, at); diff != "" {
		t.Errorf("times of the attempts (-want +got):\n%s", diff)
	}
}

func TestGateBlocksWorkers(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c := host.Process("c")
	open, worked := false, false
	c.GateWorkers(func() bool { return open })
	c.Worker("w", func() bool { return !worked }, func(context.Context) { worked = true })
	if err := host.Run(); err != nil || worked {
		t.Fatalf("err = %v, worked = %v before the gate opened", err, worked)
	}
	open = true
	c.Wake()
	if err := host.Run(); err != nil || !worked {
		t.Errorf("err = %v, worked = %v after the gate opened", err, worked)
	}
}

func TestSeededIsUniformAndReplayIsBounded(t *testing.T) {
	counts := make([]int, 4)
	s := sim.NewSeeded(1)
	for range 4000 {
		counts[s.Choose(4)]++
	}
	for i, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("choice %d drawn %d times of 4000", i, n)
		}
	}
	r := &sim.Replay{Choices: []int{2, 7}}
	if got := []int{r.Choose(3), r.Choose(3), r.Choose(3)}; !slices.Equal(got, []int{2, 2, 0}) {
		t.Errorf("replay = %v, want [2 2 0]", got)
	}
}

func BenchmarkStep(b *testing.B) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1 << 62})
	defer host.Close()
	c := host.Process("c")
	for i := range 40 {
		c.Worker(fmt.Sprint("idle", i), func() bool { return false }, func(context.Context) {})
	}
	d := host.Process("d")
	for i := range 2 {
		d.Worker(fmt.Sprint("busy", i), func() bool { return true }, func(context.Context) { call(d, "add", func() {}) })
	}
	b.ReportAllocs()
	for b.Loop() {
		host.Step()
	}
}

// A poll finds changes that are not announced, and does not keep a world from being quiescent: each
// background timer fires once after every change.
func TestBackgroundTimersPollAfterAChange(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1000})
	defer host.Close()
	c, other := host.Process("c"), host.Process("other")
	there, looked, found := false, 0, false
	q := sim.NewQueue[string](c, sim.QueueConfig{Name: "poll", BackoffMin: time.Second, Background: true})
	q.Work(func(context.Context, string) error {
		looked++
		if !there {
			return errors.New("not there yet")
		}
		found = true
		return nil
	})
	q.Add("it")
	if err := host.Run(); err != nil || looked != 1 {
		t.Fatalf("err = %v, polled %d times without a change, want once", err, looked)
	}
	for range 2 { // a change without the result, then one with it
		other.Spawn("change", func(context.Context) { call(other, "change", func() {}) })
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
		there = true
	}
	if looked != 3 || !found {
		t.Errorf("polled %d times, found = %v; want 3 and true", looked, found)
	}
	if err := host.Run(); err != nil || looked != 3 {
		t.Errorf("err = %v, polled %d times after it was found", err, looked)
	}
}

// A key that was cancelled is not handled, and time does not pass for it.
func TestQueueCancel(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	q := sim.NewQueue[string](host.Process("c"), sim.QueueConfig{Name: "keys"})
	var got []string
	q.Work(func(_ context.Context, key string) error {
		got = append(got, fmt.Sprint(key, " ", host.Now().Sub(sim.Epoch)))
		return nil
	})
	for i, key := range []string{"a", "b", "c", "a", "d"} {
		q.AddAfter(key, time.Duration(10-i)*time.Second)
	}
	q.Add("e")
	for key, want := range map[string]bool{"a": true, "d": true, "e": false, "f": false} {
		if q.Cancel(key) != want {
			t.Errorf("cancelling %s: got %v, want %v", key, !want, want)
		}
	}
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"e 0s", "c 8s", "b 9s"}, got); diff != "" {
		t.Errorf("handled keys (-want +got):\n%s", diff)
	}
	q.AddAfter("a", time.Second)
	q.Cancel("a")
	if err := host.Run(); err != nil || host.Now().Sub(sim.Epoch) != 9*time.Second {
		t.Errorf("err = %v, time %v: want none to pass for a cancelled key", err, host.Now().Sub(sim.Epoch))
	}
}

// A watchdog fires as long as time passes for others. Time passes for it alone once the process with
// the heartbeat of its key has crashed.
func TestWatchdog(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1000})
	defer host.Close()
	beat := func(name string) *sim.Process {
		p := host.Process(name)
		q := sim.NewQueue[string](p, sim.QueueConfig{Name: "heartbeat", Heartbeat: true})
		q.Work(func(context.Context, string) error {
			call(p, "renew", func() {})
			q.AddAfter(name, 10*time.Second)
			return nil
		})
		q.Add(name)
		return p
	}
	a, b := beat("a"), beat("b")
	var fired []string
	c := host.Process("c")
	q := sim.NewQueue[string](c, sim.QueueConfig{Name: "watchdog", Watchdog: true})
	q.Work(func(_ context.Context, key string) error {
		fired = append(fired, fmt.Sprint(key, " ", host.Now().Sub(sim.Epoch)))
		if key == "a" {
			q.AddAfter(key, 30*time.Second)
		}
		return nil
	})
	q.AddAfter("a", 30*time.Second)
	q.AddAfter("b", 50*time.Second)
	expect := func(when string, now time.Duration, want ...string) {
		t.Helper()
		if err := host.Run(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if diff := cmp.Diff(want, fired); diff != "" || host.Now().Sub(sim.Epoch) != now {
			t.Errorf("%s: it is %v, want %v; fired (-want +got):\n%s", when, host.Now().Sub(sim.Epoch), now, diff)
		}
	}
	expect("at rest", 0)
	c.Spawn("sleeper", func(context.Context) { c.Sleep(35 * time.Second) })
	expect("after 35 s", 35*time.Second, "a 30s")
	before := host.Log().Len()
	host.SetTime(host.Now().Add(time.Minute))
	expect("after a minute at once", 95*time.Second, "a 30s", "b 1m35s", "a 1m35s")
	order := []string{}
	for _, r := range host.Log().Records()[before:] {
		if r.Kind == trace.KindDriver || r.Kind == trace.KindWork && strings.HasSuffix(r.Task, "watchdog") {
			order = append(order, r.Task)
		}
	}
	if diff := cmp.Diff([]string{"a/heartbeat", "b/heartbeat", "c/watchdog", "c/watchdog"}, order); diff != "" {
		t.Errorf("the heartbeats do not come first (-want +got):\n%s", diff)
	}
	q.AddAfter("b", 15*time.Second)
	host.Crash(b)
	expect("without b", 110*time.Second, "a 30s", "b 1m35s", "a 1m35s", "b 1m50s")
	host.Crash(a)
	q.Cancel("a")
	expect("without a, cancelled", 110*time.Second, "a 30s", "b 1m35s", "a 1m35s", "b 1m50s")
}

// A heartbeat takes place as often as time passes for others. It neither advances the clock nor is a
// change for which polls run again. A poll that is due runs whenever time passes.
func TestHeartbeats(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1000})
	defer host.Close()
	c := host.Process("c")
	var beats []time.Duration
	polls := 0
	q := sim.NewQueue[string](c, sim.QueueConfig{Name: "heartbeat", Heartbeat: true})
	q.Work(func(context.Context, string) error {
		call(c, "renew", func() { beats = append(beats, host.Now().Sub(sim.Epoch)) })
		q.AddAfter("it", 10*time.Second)
		return nil
	})
	q.Add("it")
	poll := sim.NewQueue[string](c, sim.QueueConfig{Name: "poll", Background: true})
	poll.Work(func(context.Context, string) error {
		polls++
		poll.AddAfter("it", time.Second)
		return nil
	})
	poll.Add("it")
	expect := func(when string, polled int, want ...time.Duration) {
		t.Helper()
		if err := host.Run(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if diff := cmp.Diff(want, beats); diff != "" || polls != polled {
			t.Errorf("%s: polled %d times, want %d; heartbeats (-want +got):\n%s", when, polls, polled, diff)
		}
	}
	expect("at rest", 1, 0)
	c.Spawn("sleeper", func(context.Context) { c.Sleep(35 * time.Second) })
	expect("after 35 s", 5, 0, 10*time.Second, 20*time.Second, 30*time.Second)
	expect("at rest again", 5, 0, 10*time.Second, 20*time.Second, 30*time.Second)
	c.Spawn("change", func(context.Context) { call(c, "change", func() {}) })
	expect("after a change", 6, 0, 10*time.Second, 20*time.Second, 30*time.Second)
}
