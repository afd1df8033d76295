package testworld

import (
	"testing"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A World is an API server on a stepped host. It must be used from the goroutine of the test.
type World = On[*sim.Stepped]

// On is an API server on a host. It must be used from the goroutine of the test.
type On[H sim.Host] struct {
	Runner[H]
	Server *fake.Server
	User   *fake.Clientset // the test's own; its requests take effect without a step
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
	w := &On[H]{Runner: Runner[H]{TB: t, Host: host}}
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

// Hostless returns the world without its host, for helpers of stepped worlds that do not use it.
func (w *On[H]) Hostless() *World {
	return &World{Runner: Runner[*sim.Stepped]{TB: w.TB}, Server: w.Server, User: w.User}
}

// ImmediateCaller returns a caller whose requests take effect at once and are not recorded. Unlike
// the external caller of a host, it may be used while the request of a task takes effect.
func ImmediateCaller(now func() time.Time) sim.Caller { return immediateCaller{now} }

type immediateCaller struct{ now func() time.Time }

func (c immediateCaller) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome {
	return effect()
}

func (c immediateCaller) Now() time.Time { return c.now() }
