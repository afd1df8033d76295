package testworld

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A World is an API server on a stepped host. It must be used from the goroutine of the test.
type World struct {
	testing.TB
	Host   *sim.Stepped
	Server *fake.Server
	User   kubernetes.Interface // the test's own; its requests take effect without a step
}

// New returns a world that ends with the test. The server uses the host's clock.
func New(t testing.TB, cfg sim.SteppedConfig) *World {
	t.Helper()
	return NewWith(t, cfg, fake.Config{})
}

// NewWith is New with a configuration of the server. Its clock is the host's.
func NewWith(t testing.TB, stepped sim.SteppedConfig, cfg fake.Config) *World {
	t.Helper()
	host := sim.NewStepped(stepped)
	t.Cleanup(host.Close)
	cfg.Now = host.Now
	server := fake.NewServer(cfg)
	return &World{TB: t, Host: host, Server: server, User: server.Client(host.ExternalCaller())}
}

// NoError ends the test if err is not nil.
func (w *World) NoError(err error) {
	w.Helper()
	NoError(w, err)
}

// Run runs the world until no step is left.
func (w *World) Run() {
	w.Helper()
	if err := w.Host.Run(); err != nil {
		w.Fatalf("%v\n%s", err, w.Host.Log().Text())
	}
}

// Until runs the world until cond holds. what describes the condition in the error.
func (w *World) Until(what string, cond func() bool) {
	w.Helper()
	if err := w.Host.Wait(context.Background(), what, cond); err != nil {
		w.Fatalf("%v\n%s", err, w.Host.Log().Text())
	}
}

// Step runs one step of a task.
func (w *World) Step(task string) {
	w.Helper()
	w.NoError(w.Host.StepTask(task))
}

// ImmediateCaller returns a caller whose requests take effect at once and are not recorded. Unlike
// the external caller of a host, it may be used while the request of a task takes effect.
func ImmediateCaller(now func() time.Time) sim.Caller { return immediateCaller{now} }

type immediateCaller struct{ now func() time.Time }

func (c immediateCaller) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome {
	return effect()
}

func (c immediateCaller) Now() time.Time { return c.now() }

// NoError ends the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns v. It panics if err is not nil: use it where an error is a defect of the test.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
