package sim_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// workshop is a world of three workers in two processes. Each has three pieces of work of two calls.
func workshop(strategy sim.Strategy) *sim.Stepped {
	host := sim.NewStepped(sim.SteppedConfig{Strategy: strategy, StepsMax: 1000})
	for _, name := range []string{"c", "d"} {
		c := host.Process(name)
		workers := []string{"a", "b"}
		if name == "d" {
			workers = workers[:1]
		}
		for _, worker := range workers {
			left := 3
			c.Worker(worker, func() bool { return left > 0 }, func(context.Context) {
				left--
				for _, verb := range []string{"read", "write"} {
					call(c, verb, func() {})
				}
			})
		}
		host.AddEventSource(func(string) []sim.Event {
			return []sim.Event{{Name: "crash " + name, Apply: func() { host.Crash(c) }}}
		})
	}
	return host
}

func runOf(t *testing.T, strategy sim.Strategy) string {
	t.Helper()
	host := workshop(strategy)
	defer host.Close()
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	return host.Log().Text()
}

// The recorded schedule of any strategy is text that parses, and a replay of it has the same trace.
func TestRecordedSchedulesReplay(t *testing.T) {
	specs, err := sim.ParseFaultSpecs("driver Unavailable(0.2), hang(read, 2), crash(d, 1)")
	if err != nil {
		t.Fatal(err)
	}
	strategies := map[string]func(seed uint64) sim.Strategy{
		"random": sim.NewRandom,
		"pct":    func(seed uint64) sim.Strategy { return sim.NewPCT(seed, 3, 20) },
		"pos":    func(seed uint64) sim.Strategy { return sim.NewPOS(seed) },
		"chaos": func(seed uint64) sim.Strategy {
			chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, specs, 20, "crash")
			if err != nil {
				t.Fatal(err)
			}
			return chaos
		},
	}
	for name, strategy := range strategies {
		traces := map[string]bool{}
		for seed := range uint64(50) {
			recording := &sim.RecordingStrategy{Strategy: strategy(seed)}
			want := runOf(t, recording)
			traces[want] = true
			schedule, err := sim.ParseSchedule(recording.Schedule.String())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(recording.Schedule, schedule); diff != "" {
				t.Fatalf("%s %d: parsed schedule (-recorded +parsed):\n%s", name, seed, diff)
			}
			plan := sim.NewReplayStrategy(schedule)
			if got := runOf(t, plan); got != want || plan.Mismatch() != "" {
				t.Fatalf("%s %d: %s\n%s\n%s", name, seed, schedule, plan.Mismatch(), cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
			}
		}
		if len(traces) < 25 {
			t.Errorf("%s: %d traces of 50 seeds", name, len(traces))
		}
	}
}

// A held task runs when no other task can, and the next task takes its place.
func TestHeldTaskRunsLast(t *testing.T) {
	plan := sim.NewReplayStrategy(sim.Schedule{{Step: 1, What: sim.DeviationHold, Subject: "c/a"}})
	text := runOf(t, plan)
	if plan.Mismatch() != "" {
		t.Fatal(plan.Mismatch())
	}
	last := strings.LastIndex(text, "c/b")
	other := strings.LastIndex(text, "d/a")
	if first := strings.Index(text, "c/a"); first < max(last, other) {
		t.Errorf("the held task ran before the others ended:\n%s", text)
	}
}

// Tasks that never come to rest do not starve a held task.
func TestHoldEnds(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{Strategy: sim.NewReplayStrategy(sim.Schedule{{Step: 1, What: sim.DeviationHold, Subject: "c/patient"}})})
	defer host.Close()
	c, moved := host.Process("c"), 0
	c.Worker("patient", func() bool { return moved == 0 }, func(context.Context) { moved = host.Steps() })
	c.Worker("restless", func() bool { return true }, func(context.Context) {})
	c.Worker("too", func() bool { return true }, func(context.Context) {})
	for moved == 0 && host.Steps() < 1000 {
		host.Step()
	}
	if moved < sim.HoldSteps || moved > sim.HoldSteps+5 {
		t.Errorf("ran at step %d, want soon after %d", moved, sim.HoldSteps)
	}
}

// Mismatch describes why a schedule of another world cannot be replayed.
func TestReplayMismatch(t *testing.T) {
	for _, tt := range []struct{ schedule, want string }{
		{"1 hold: none", "1 hold: none: the next task is c/a"},
		{"1 pick: none", "1 pick: none: the task cannot run"},
		{"1 event: crash e", "1 event: crash e: it cannot happen here"},
		{"1 hang: c/a", "1 hang: c/a: the next task is c/a"}, // it makes no call yet
		{"900 hold: c/a", "900 hold: c/a: the world was at rest before"},
		{"2 hang: c/a", ""},
	} {
		schedule, err := sim.ParseSchedule(tt.schedule)
		if err != nil {
			t.Fatal(err)
		}
		plan := sim.NewReplayStrategy(schedule)
		runOf(t, plan)
		if got := plan.Mismatch(); got != tt.want {
			t.Errorf("%s: mismatch %q, want %q", tt.schedule, got, tt.want)
		}
	}
}

func TestParseScheduleErrors(t *testing.T) {
	for _, text := range []string{"hold: c/a", "0 hold: c/a", "1 hold", "1 hold: ", "1 jump: c/a", "1 driver: c/a", "1 driver Unheard: c/a", "1 hang Internal: c/a"} {
		if s, err := sim.ParseSchedule(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %v and %v, want an error that quotes it", text, s, err)
		}
	}
}

func TestParseFaultSpecs(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		"conflict(0.1)": "conflict(0.1)",
		" conflict( 0.10 ),crash(pvcontroller,1)": "conflict(0.1), crash(pvcontroller, 1)",
		"driver Unavailable(CreateVolume, 0.5)":   "driver Unavailable(CreateVolume, 0.5)",
		"crash(kubelet(node-1), 1)":               "crash(kubelet(node-1), 1)",
		"conflict":                                "error",
		"conflict()":                              "error",
		"conflict(2.0)":                           "error",
		"conflict(0)":                             "error",
		"(0.1)":                                   "error",
		"conflict(NaN)":                           "error",
		"conflict(Inf)":                           "error",
		"conflict(-Inf)":                          "error",
		"conflict(-0.1)":                          "error",
		"conflict(-1)":                            "error",
		"conflict(1.0)":                           "error",
		"conflict(1e-400)":                        "error",
		"conflict(1e400)":                         "error",
		"conflict(1000000)":                       "conflict(1000000)",
		"conflict(1000001)":                       "error",
		"conflict(99999999999999999999)":          "error",
	} {
		specs, err := sim.ParseFaultSpecs(text)
		if (err != nil) != (want == "error") || err == nil && specs.String() != want {
			t.Errorf("%q: got %q and %v, want %q", text, specs, err, want)
		}
	}
	_, err := sim.NewFaultInjector(sim.NewRandom(1), 1, sim.FaultSpecs{{Name: "flood", Rate: 0.1}}, 10, "crash")
	if err == nil || !strings.Contains(err.Error(), "flood") || !strings.Contains(err.Error(), "crash") {
		t.Errorf("error %v does not name the invalid part and the alternatives", err)
	}
	for _, spec := range []sim.FaultSpec{
		{Name: "conflict", Rate: math.NaN()},
		{Name: "conflict", Rate: math.Inf(1)},
		{Name: "conflict", Rate: -0.1},
		{Name: "conflict", Rate: 1},
		{Name: "crash", Times: -1},
		{Name: "crash", Times: 1_000_001},
	} {
		if _, err := sim.NewFaultInjector(sim.NewRandom(1), 1, sim.FaultSpecs{spec}, 10, "crash"); err == nil {
			t.Errorf("%+v: want an error", spec)
		}
	}
}

// TestFaults makes one call of each kind under each fault, and checks its effect and its error.
func TestFaults(t *testing.T) {
	write := trace.Action{Kind: trace.KindAPI, Verb: "update/status", Object: "persistentvolumes/v"}
	read := trace.Action{Kind: trace.KindAPI, Verb: "get", Object: "persistentvolumes/v"}
	rpc := trace.Action{Kind: trace.KindDriver, Verb: "CreateVolume", Object: "driver/v"}
	for _, tt := range []struct {
		fault   string
		of      trace.Action
		effect  bool
		is      func(error) bool
		refuses []trace.Action
	}{
		{"conflict", write, false, apierrors.IsConflict, []trace.Action{read, rpc}},
		{"refused", read, false, apierrors.IsServiceUnavailable, []trace.Action{rpc}},
		{"lost", write, true, apierrors.IsTimeout, []trace.Action{read, rpc}},
		{"driver Unavailable", rpc, false, func(err error) bool { return status.Code(err) == codes.Unavailable }, []trace.Action{read, write}},
		{"driver-lost Internal", rpc, true, func(err error) bool { return status.Code(err) == codes.Internal }, []trace.Action{read, write}},
		{"hang", rpc, true, func(err error) bool { return status.Code(err) == codes.DeadlineExceeded }, []trace.Action{read, write}},
	} {
		fault, err := sim.ParseFault(tt.fault)
		if err != nil || fault.String() != tt.fault {
			t.Fatal(err, fault)
		}
		if slices.ContainsFunc(tt.refuses, fault.Applies) || !fault.Applies(tt.of) {
			t.Errorf("%s applies to the wrong calls", fault)
		}
		host := sim.NewStepped(sim.SteppedConfig{Strategy: sim.NewReplayStrategy(sim.Schedule{{Step: 2, What: tt.fault, Subject: "c/w"}})})
		c, effect, done := host.Process("c"), false, false
		var believed error
		c.Worker("w", func() bool { return !done }, func(context.Context) {
			done = true
			believed = c.Call(tt.of, func() trace.Outcome { effect = true; return trace.Outcome{Detail: "done"} }).Err
		})
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
		if effect != tt.effect || !tt.is(believed) {
			t.Errorf("%s: effect %v, error %v", fault, effect, believed)
		}
		record := host.Log().Records()[0]
		if record.Lost != tt.effect || !errors.Is(record.Err, believed) {
			t.Errorf("%s: recorded as %s", fault, record)
		}
		if waited := host.Now().Sub(sim.Epoch); (waited == sim.HangTimeout) != (tt.fault == "hang") {
			t.Errorf("%s: took %s", fault, waited)
		}
		host.Close()
	}
}

// A crash unwinds each task at its suspension point and removes the timers.
func TestCrashUnwindsTasksAndRemovesTimers(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c, d := host.Process("c"), host.Process("d")
	var happened []string
	say := func(s string) func() { return func() { happened = append(happened, s) } }
	c.Spawn("s", func(context.Context) {
		defer say("deferred")()
		call(c, "first", say("first"))
		call(c, "second", say("second"))
	})
	c.NewTimer("t", say("timer")).Reset(1)
	c.OnCrash(say("crashed"))
	host.AddEventSource(func(string) []sim.Event {
		if len(happened) != 1 {
			return nil
		}
		return []sim.Event{{Name: "crash c", Apply: func() { host.Crash(c) }}}
	})
	if host.Inject("crash c") {
		t.Error("an impossible event was injected")
	}
	for len(happened) < 1 {
		host.Step()
	}
	if !host.Inject("crash c") {
		t.Error("a possible event was not injected")
	}
	c.Wake()
	d.Spawn("s", func(context.Context) { call(d, "other", say("other")) })
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "deferred", "crashed", "other"}, happened); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if !strings.Contains(host.Log().Text(), "\tworld\tevent crash c\t") {
		t.Errorf("not recorded:\n%s", host.Log().Text())
	}
}

// A strategy can end a run.
func TestStop(t *testing.T) {
	host := workshop(stopAt(5))
	defer host.Close()
	if err := host.Run(); err != nil || host.Steps() != 4 || !host.Stopped() {
		t.Errorf("%v, %d steps, stopped %v", err, host.Steps(), host.Stopped())
	}
}

type stopAt int

func (s stopAt) Decide(d *sim.Decision) sim.Move { return sim.Move{Stop: d.Step() == int(s)} }
