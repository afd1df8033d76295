package simtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/goroutine"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Bounds of a bubble.
const (
	bubbleSteps = 100_000        // requests and deliveries
	bubbleLife  = 24 * time.Hour // maximum wait of run outside Settle, in the bubble's time
	bubbleGrace = time.Minute    // time for goroutines to end after run, in the bubble's time
)

// errOver is the response to requests after the end of the run.
var errOver = errors.New("simtest: the run of the bubble has ended")

// A BubbleWorld is the API server of a bubble and its clients. Every request through Client,
// RESTConfig or Caller, and every event of a watch opened there, blocks until all goroutines of the
// bubble are blocked. Then the chooser picks one that proceeds. Its methods, except Settle, may be
// called concurrently.
type BubbleWorld struct {
	t        *testing.T
	ctx      context.Context //nolint:containedctx // of the run
	cancel   context.CancelFunc
	server   *fake.Server
	log      trace.Log
	clock    clock.Clock // of the bubble
	start    time.Time
	chooser  sim.Chooser
	strategy gateStrategy // decides instead of the chooser; nil: none
	runner   uintptr      // the goroutine of run; 0: unknown
	id       string       // of the bubble, in stack traces

	arrived chan struct{}      // holds a token if a call has blocked since the driver last checked
	resting chan chan struct{} // the driver closes the received channels when no call is blocked
	done    chan struct{}      // closed when the driver must end
	stopped chan struct{}      // closed when the driver has ended
	ended   bool               // run and its cleanups have returned
	broken  bool               // the test had failed then

	mu       sync.Mutex
	waiting  []*blockedCall // guarded by mu
	arrivals int            // guarded by mu: number of calls that have blocked
	steps    int            // guarded by mu: number of calls that have proceeded
	stepsMax int
	slow     time.Duration // guarded by mu: maximum delay of a step; 0: none
	choices  []int         // guarded by mu: made by the chooser
	over     bool          // guarded by mu: all calls are refused
	failed   bool          // guarded by mu: a bound was reached

	recording sync.Mutex
	notes     map[int]string // guarded by recording: by step of the log, the deviation from the default order
}

// Bubble runs a test in a bubble of testing/synctest, with an API server that is initially empty.
// run starts the code under test, unmodified: informers, work queues and goroutines over
// [BubbleWorld.Client] or [BubbleWorld.RESTConfig]. Their requests and deliveries happen one at a
// time, in the order that the chooser decides. [sim.FIFO] prefers deliveries, then the request that
// has waited longest; [sim.NewSeeded] picks any. The clock is that of the bubble: it starts in 2000
// and advances only when nothing else can happen, so back-off and resync take no real time. run may
// block and sleep like any code. [BubbleWorld.Settle] waits until everything is blocked.
// [Budget.SearchBubble] runs a bubble under many schedules, with holds and faults.
//
// A failed test logs its actions, and the choices for a [sim.Replay]. A test also fails after
// 100,000 steps, when run has waited outside Settle for a day of the bubble's time, and when
// goroutines are left. When run returns, its context ends and requests are answered with an error.
// One minute of the bubble's time after the last t.Cleanup every goroutine must have ended. Start
// informers with [BubbleWorld.Context], and shut queues down.
//
// # Limits
//
//   - It takes a *testing.T. In the bubble there is no t.Run, t.Parallel or t.Deadline, no nested
//     bubble, and no synctest.Wait: use Settle instead. Loop over seeds outside, each in a t.Run.
//   - No network, files or processes: synctest does not detect a goroutine that waits for one, and
//     the test hangs until go test ends it with a stack trace. The configs of RESTConfig are in
//     memory. The same holds for a sync.Mutex whose holder sleeps, and for a select with a channel
//     created outside, such as wait.NeverStop.
//   - Only requests and deliveries are ordered. Between them goroutines run freely: two workers
//     that race for a queue through memory alone are not explored. Give the parts of a controller
//     clients of different names, to distinguish them.
//   - A request takes no time, so no timeout ends it, unless [BubbleWorld.Slow] is set.
//   - Replay is not exact: the chooser does not control the order of cache.Store.List and of maps,
//     a select with several ready cases, the jitter of retries, the timeouts of watches (some
//     minutes), and, with more than one processor, races between goroutines. Sort the results of
//     listers and run with GOMAXPROCS=1. Then the same choices nearly always produce the same
//     trace. [BubbleTwice] verifies it.
//   - A panic in a goroutine ends the test binary.
//
// A request costs some 3 µs. A step of a controller with two informers costs 15 to 35 µs, ten times
// a step of a world of sim.Stepped, and a bubble 40 µs. Bubble is meant for existing code, not for
// exhaustive search.
func Bubble(t *testing.T, chooser sim.Chooser, run func(t *testing.T, b *BubbleWorld)) {
	t.Helper()
	var b *BubbleWorld
	runBubble(t, &b, chooser, nil, run)
}

// runBubble runs a bubble under a chooser, or under a strategy if it is not nil. It sets b before
// anything can fail.
func runBubble(
	t *testing.T, b **BubbleWorld, chooser sim.Chooser, strategy gateStrategy, run func(t *testing.T, b *BubbleWorld),
) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			(*b).reportLeaks(t, r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		*b = newBubbleWorld(t, chooser)
		(*b).strategy, (*b).runner = strategy, goroutine.ID()
		t.Cleanup((*b).end) // registered first, so called last
		go (*b).drive()
		defer (*b).refuseAll()
		run(t, *b)
	})
}

func newBubbleWorld(t *testing.T, chooser sim.Chooser) *BubbleWorld {
	b := &BubbleWorld{
		t: t, chooser: chooser, clock: clock.RealClock{}, id: bubbleID(), stepsMax: bubbleSteps,
		arrived: make(chan struct{}, 1), resting: make(chan chan struct{}),
		done: make(chan struct{}), stopped: make(chan struct{}), notes: map[int]string{},
	}
	b.start = b.clock.Now()
	b.server = fake.NewServer(fake.Config{Now: b.clock.Now})
	b.ctx, b.cancel = context.WithCancel(trace.NewContext(t.Context(), &b.log))
	return b
}

// Server returns the API server, for inspection and for methods that clients do not have. Its own
// clients do not block.
func (b *BubbleWorld) Server() *fake.Server { return b.server }

// Context returns a context that ends when run returns or a bound is reached.
func (b *BubbleWorld) Context() context.Context { return b.ctx }

// Trace returns the trace: every request, in order, and every event that reached a watcher. The
// task of a record is the name of its client.
func (b *BubbleWorld) Trace() *trace.Log { return &b.log }

// Client returns a clientset whose requests and watch events block. name identifies it in the
// trace.
func (b *BubbleWorld) Client(name string) *fake.Clientset { return b.server.Client(b.Caller(name)) }

// RESTConfig returns an in-memory client-go config for clients and managers of any kind. Their
// requests and events block like those of a Client.
func (b *BubbleWorld) RESTConfig(name string) *clientrest.Config {
	return apiserver.NewConfig(b.server, b.Caller(name))
}

// Caller returns the caller on which Client and RESTConfig are built, for drivers and other kinds
// of clients. After the run a call has no effect and returns an error; it unwinds nothing.
func (b *BubbleWorld) Caller(name string) sim.Caller { return bubbleCaller{b, name} }

// Direct returns a clientset for the test itself: its requests take effect at once. Its name in the
// trace is "test".
func (b *BubbleWorld) Direct() *fake.Clientset { return b.server.Client(direct{b}) }

// Settle lets d pass and then everything happen that needs no more time. It returns when every
// goroutine is blocked. It is for the goroutine of run, and ends the test if a bound was reached.
func (b *BubbleWorld) Settle(d time.Duration) {
	b.t.Helper()
	for {
		component := min(d, bubbleLife/2) // so that the driver knows that run makes progress
		b.clock.Sleep(component)
		rest := make(chan struct{})
		b.resting <- rest
		<-rest
		b.mu.Lock()
		failed := b.failed
		b.mu.Unlock()
		if failed {
			b.t.FailNow()
		}
		if d -= component; d <= 0 {
			return
		}
	}
}

// Slow makes requests and deliveries take time. From now on a chooser may also, as its last choice,
// let time pass until another call arrives, at most d. Without Slow no timer fires while a call is
// blocked. 0 ends it.
func (b *BubbleWorld) Slow(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow = d
}

// end is called in the bubble when the run and its cleanups have ended.
func (b *BubbleWorld) end() {
	close(b.done)
	<-b.stopped
	b.clock.Sleep(bubbleGrace)
	synctest.Wait()
	b.ended = true
	b.broken = b.t.Failed()
	if b.broken && b.strategy == nil {
		b.t.Log(b.report())
	}
}

// direct is the caller of the test itself.
type direct struct{ b *BubbleWorld }

func (d direct) Now() time.Time { return d.b.clock.Now() }

func (d direct) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	out := effect()
	d.b.record("test", action, out, "")
	return out
}
