package sim_test

import (
	"context"
	"strings"
	"testing"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// The panic of a task leaves Step, with the task and its stack.
func TestPanicLeavesTheStackOfItsTask(t *testing.T) {
	s := sim.NewStepped(sim.SteppedConfig{})
	defer s.Close()
	c := s.Process("careless")
	c.Spawn("work", func(context.Context) {
		c.Call(trace.Action{Kind: trace.KindAPI, Verb: "get", Object: "pods/default/web"}, func() trace.Outcome { return trace.Outcome{} })
		stumble()
	})
	defer func() {
		value := recover()
		task, stack := s.PanickedTask()
		if value != "stumbled" || task != "careless/work" || !strings.Contains(stack, "sim_test.stumble") {
			t.Errorf("recovered %v of %q with the stack\n%s", value, task, stack)
		}
	}()
	t.Errorf("ended with %v, want a panic", s.Run())
}

func stumble() { panic("stumbled") }

func TestRecordsHaveTheStepOfTheSchedule(t *testing.T) {
	s := sim.NewStepped(sim.SteppedConfig{})
	defer s.Close()
	c := s.Process("c")
	call := func(context.Context) {
		c.Call(trace.Action{Kind: trace.KindAPI, Verb: "get"}, func() trace.Outcome { return trace.Outcome{} })
	}
	c.Spawn("before", call)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	s.SetStrategy(sim.NewReplayStrategy(nil))
	c.Spawn("after", call)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{2, 2} { // the first step of each task leads to its call
		if got := s.Log().Records()[i].HostStep; got != want {
			t.Errorf("record %d has host step %d, want %d", i+1, got, want)
		}
	}
}
