package sim_test

import (
	"context"
	"errors"
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

// workshop is a world of three workers in two components, each with three pieces of work of two calls.
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

// Whatever a strategy does, the schedule that was noted says it in words that parse back, and repeats it.
func TestNotedSchedulesRepeat(t *testing.T) {
	risks, err := sim.ParseFaultSpecs("driver Unavailable(0.2), hang(read, 2), crash(d, 1)")
	if err != nil {
		t.Fatal(err)
	}
	strategies := map[string]func(seed uint64) sim.Strategy{
		"random": sim.NewRandom,
		"pct":    func(seed uint64) sim.Strategy { return sim.NewPCT(seed, 3, 20) },
		"pos":    func(seed uint64) sim.Strategy { return sim.NewPOS(seed) },
		"chaos": func(seed uint64) sim.Strategy {
			chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, risks, 20, "crash")
			if err != nil {
				t.Fatal(err)
			}
			return chaos
		},
	}
	for name, strategy := range strategies {
		traces := map[string]bool{}
		for seed := range uint64(50) {
			noting := &sim.RecordingStrategy{Strategy: strategy(seed)}
			want := runOf(t, noting)
			traces[want] = true
			schedule, err := sim.ParseSchedule(noting.Schedule.String())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(noting.Schedule, schedule); diff != "" {
				t.Fatalf("%s %d: schedule read back (-noted +read):\n%s", name, seed, diff)
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

// An actor that is held is moved when nothing else can be, and its place is taken by the next.
func TestHoldKeepsAnActorBackUntilNothingElseCanHappen(t *testing.T) {
	plan := sim.NewReplayStrategy(sim.Schedule{{Step: 1, What: sim.DeviationHold, Subject: "c/a"}})
	text := runOf(t, plan)
	if plan.Mismatch() != "" {
		t.Fatal(plan.Mismatch())
	}
	last := strings.LastIndex(text, "c/b")
	other := strings.LastIndex(text, "d/a")
	if first := strings.Index(text, "c/a"); first < max(last, other) {
		t.Errorf("the held actor was moved before the others were done:\n%s", text)
	}
}

// An actor that is held is not starved by others that never come to rest.
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
		t.Errorf("moved at step %d, want soon after %d", moved, sim.HoldSteps)
	}
}

// A schedule of another world says what does not fit.
func TestPlanSaysWhatDoesNotFit(t *testing.T) {
	for _, tt := range []struct{ schedule, want string }{
		{"1 hold: nobody", "1 hold: nobody: it is the turn of c/a"},
		{"1 pick: nobody", "1 pick: nobody: it has nothing to do"},
		{"1 event: crash e", "1 event: crash e: it cannot happen here"},
		{"1 hang: c/a", "1 hang: c/a: it is the turn of c/a"}, // which makes no call yet
		{"900 hold: c/a", "900 hold: c/a: the world came to rest before"},
		{"2 hang: c/a", ""},
	} {
		schedule, err := sim.ParseSchedule(tt.schedule)
		if err != nil {
			t.Fatal(err)
		}
		plan := sim.NewReplayStrategy(schedule)
		runOf(t, plan)
		if got := plan.Mismatch(); got != tt.want {
			t.Errorf("%s: misfit %q, want %q", tt.schedule, got, tt.want)
		}
	}
}

func TestParseScheduleErrors(t *testing.T) {
	for _, text := range []string{"hold: c/a", "0 hold: c/a", "1 hold", "1 hold: ", "1 jump: c/a", "1 driver: c/a", "1 driver Unheard: c/a", "1 hang Internal: c/a"} {
		if s, err := sim.ParseSchedule(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q gives %v and %v, want an error that names it", text, s, err)
		}
	}
}

func TestParseRisks(t *testing.T) {
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
	} {
		risks, err := sim.ParseFaultSpecs(text)
		if (err != nil) != (want == "error") || err == nil && risks.String() != want {
			t.Errorf("%q gives %q and %v, want %q", text, risks, err, want)
		}
	}
	_, err := sim.NewFaultInjector(sim.NewRandom(1), 1, sim.FaultSpecs{{Name: "flood", Rate: 0.1}}, 10, "crash")
	if err == nil || !strings.Contains(err.Error(), "flood") || !strings.Contains(err.Error(), "crash") {
		t.Errorf("error %v does not say what is wrong, and what there is", err)
	}
}

// answers makes one call of each sort under a fault, and tells whether it took effect and what was believed.
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

// A crash unwinds each strand where it stands, and takes the timers with it.
func TestCrashEndsAComponentWhereItStands(t *testing.T) {
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
	host.AddEventSource(func(string) []sim.Event {
		if len(happened) != 1 {
			return nil
		}
		return []sim.Event{{Name: "crash c", Apply: func() { host.Crash(c) }}}
	})
	if host.Inject("crash c") {
		t.Error("befell although it was not possible")
	}
	for len(happened) < 1 {
		host.Step()
	}
	if !host.Inject("crash c") {
		t.Error("did not befall")
	}
	c.Wake()
	d.Spawn("s", func(context.Context) { call(d, "other", say("other")) })
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "deferred", "other"}, happened); diff != "" {
		t.Errorf("happened (-want +got):\n%s", diff)
	}
	if !strings.Contains(host.Log().Text(), "\tworld\tevent crash c\t") {
		t.Errorf("not recorded:\n%s", host.Log().Text())
	}
}

// A strategy may end a run.
func TestStop(t *testing.T) {
	host := workshop(stopAt(5))
	defer host.Close()
	if err := host.Run(); err != nil || host.Steps() != 4 || !host.Stopped() {
		t.Errorf("%v, %d steps, stopped %v", err, host.Steps(), host.Stopped())
	}
}

type stopAt int

func (s stopAt) Decide(d *sim.Decision) sim.Move { return sim.Move{Stop: d.Step() == int(s)} }
