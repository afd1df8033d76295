package sim_test

import (
	"context"
	"testing"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A host that reuses a log, coroutines and names has the trace of a new one.
func TestPoolReusesALog(t *testing.T) {
	t.Parallel()
	pool := &sim.Pool{}
	defer pool.Close()
	run := func(task string) *trace.Log {
		t.Helper()
		host := sim.NewStepped(sim.SteppedConfig{Pool: pool})
		defer host.Close()
		p := host.Process("process")
		p.Spawn(task, func(context.Context) { p.Sleep(1) })
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
		return host.Log()
	}
	first := run("a")
	want := first.Text()
	if other := run("b"); other == first || other.Text() == want {
		t.Errorf("a log in use was given to another host: %s", other.Text())
	}
	pool.Reuse(first)
	again := run("a")
	if again != first || again.Text() != want || want == "" {
		t.Errorf("reused: %v, text %q, want %q", again == first, again.Text(), want)
	}
	if other := run("a"); other == first {
		t.Error("a log was given to two hosts")
	}
}
