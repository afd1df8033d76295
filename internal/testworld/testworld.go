package testworld

import (
	"context"
	"testing"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A World is an API server on a stepped host. It must be used from the goroutine of the test.
type World = On[*sim.Stepped]

// On is an API server on a host. It must be used from the goroutine of the test.
type On[H sim.Host] struct {
	testing.TB
	Host    H
	Server  *fake.Server
	User    *fake.Clientset // the test's own; its requests take effect without a step
	Explain func() string   // if not nil, its text is shown if a run fails
}

// New returns a world that ends with the test. The server uses the host's clock.
func New(t testing.TB, cfg sim.SteppedConfig) *World {
	t.Helper()
	return NewWith(t, cfg, fake.Config{})
}

// NewWith is New with a configuration of the server. Its clock is the host's.
func NewWith(t testing.TB, stepped sim.SteppedConfig, cfg fake.Config) *World {
	t.Helper()
	return NewOn(t, sim.NewStepped(stepped), cfg)
}

// NewOn is NewWith on any host. A test may replace Host; the last one ends with the test.
func NewOn[H sim.Host](t testing.TB, host H, cfg fake.Config) *On[H] {
	t.Helper()
	w := &On[H]{TB: t, Host: host}
	t.Cleanup(func() { w.Host.Close() })
	cfg.Now = w.now
	w.Server = fake.NewServer(cfg)
	w.User = w.Server.Client(host.ExternalCaller())
	return w
}

// now returns the time of the present host.
func (w *On[H]) now() time.Time { return w.Host.Now() }

// ActImmediately lets the requests of User take effect without a record, and also while the request
// of a task takes effect.
func (w *On[H]) ActImmediately() { w.User = w.Server.Client(ImmediateCaller(w.now)) }

// NoError ends the test if err is not nil.
func (w *On[H]) NoError(err error) {
	w.Helper()
	testcheck.NoError(w, err)
}

// Run runs the world until no step is left. Its host must be stepped.
func (w *On[H]) Run() {
	w.Helper()
	w.check(w.stepped().Run())
}

// waitMax limits the wait for a condition on a live host.
const waitMax = time.Minute

// Until runs the world until cond holds. what describes the condition in the error.
func (w *On[H]) Until(what string, cond func() bool) {
	w.Helper()
	ctx := context.Background()
	if _, ok := any(w.Host).(*sim.Stepped); !ok {
		limited, cancel := context.WithTimeout(ctx, waitMax)
		defer cancel()
		ctx = limited
	}
	w.check(w.Host.Wait(ctx, what, cond))
}

// Step runs one step of a task. The world's host must be stepped.
func (w *On[H]) Step(task string) {
	w.Helper()
	w.NoError(w.stepped().StepTask(task))
}

func (w *On[H]) stepped() *sim.Stepped {
	w.Helper()
	host, ok := any(w.Host).(*sim.Stepped)
	if !ok {
		w.Fatalf("the host is a %T, not a stepped one", w.Host)
	}
	return host
}

// check ends the test with the trace if err is not nil.
func (w *On[H]) check(err error) {
	w.Helper()
	switch {
	case err == nil:
	case w.Explain == nil:
		w.Fatalf("%v\n%s", err, w.Host.Log().Text())
	default:
		w.Fatalf("%v\n%s\n%s", err, w.Explain(), w.Host.Log().Text())
	}
}

// ImmediateCaller returns a caller whose requests take effect at once and are not recorded. Unlike
// the external caller of a host, it may be used while the request of a task takes effect.
func ImmediateCaller(now func() time.Time) sim.Caller { return immediateCaller{now} }

type immediateCaller struct{ now func() time.Time }

func (c immediateCaller) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome {
	return effect()
}

func (c immediateCaller) Now() time.Time { return c.now() }
