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
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Bounds of a bubble.
const (
	bubbleSteps = 100_000        // requests and deliveries
	bubbleLife  = 24 * time.Hour // how long run may wait for something else than Settle, in the bubble's time
	bubbleGrace = time.Minute    // what goroutines have to end after run, in the bubble's time
)

// errOver is the answer to requests when the run is over.
var errOver = errors.New("simtest: the bubble's run is over")

// BubbleWorld is the API server of a bubble and the ways in. Every request made through Client, RESTConfig or Caller, and
// every event of a watch opened there, stops until all goroutines of the bubble are blocked; then one is let go, as the
// chooser says. Its methods may be called concurrently, Settle excepted.
type BubbleWorld struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // the run's, for whoever runs in the bubble
	cancel  context.CancelFunc
	server  *fake.Server
	log     trace.Log
	clock   clock.Clock // that of the bubble
	start   time.Time
	chooser sim.Chooser
	id      string // of the bubble, among the process's goroutines

	arrived chan struct{}      // holds a token when somebody has stopped since the driver last looked
	resting chan chan struct{} // what is sent is closed when nobody has stopped
	done    chan struct{}      // closed when the driver is to end
	stopped chan struct{}      // closed when it has ended
	ended   bool               // run and what it left to clean up have returned

	mu       sync.Mutex
	waiting  []*blockedCall // guarded by mu
	arrivals int            // guarded by mu: how many have stopped so far
	steps    int            // guarded by mu: how many were let go
	stepsMax int
	slow     time.Duration // guarded by mu: how long a step may be put off; 0: not at all
	choices  []int         // guarded by mu: what the chooser chose
	over     bool          // guarded by mu: everybody is turned away
	failed   bool          // guarded by mu: at a bound

	recording    sync.Mutex
	defaultCalls map[int]string // guarded by recording: by step of the log, what the ordinary course would have been
}

// Bubble runs a test in a bubble of testing/synctest with an API server that is empty to begin with. In it, run starts
// whatever it wants to test: informers, work queues, goroutines, all as they are, over [BubbleWorld.Client] or
// [BubbleWorld.RESTConfig]. Calls and deliveries to them happen one at a time, in the order that the chooser decides
// ([sim.FIFO]: deliveries first, then requests, whoever has waited longest; [sim.NewSeeded]: anyhow). Time is that of the
// bubble: it begins in 2000, stands still while anything can happen, and otherwise goes on to whatever is waited for
// next, so that back-off and resync cost nothing. run may block and sleep like any code; [BubbleWorld.Settle] waits until
// everything is blocked.
//
// If the test fails, it shows what happened, and the choices to give to a [sim.Replay]. It fails, too, after 100,000
// steps, when run has waited for a day of the bubble's time for something else than Settle, and when goroutines are left:
// when run returns, its context ends, requests are answered with an error, and a minute of the bubble's time after the
// last t.Cleanup every goroutine has to have ended. So informers are given [BubbleWorld.Context], and queues shut down.
//
// # Limits
//
//   - It takes a *testing.T. In the bubble there is no t.Run, t.Parallel or t.Deadline, no further bubble, and no
//     synctest.Wait: Settle stands for it. Loop over seeds outside, each in a t.Run of its own.
//   - No network, no files, no processes: nobody sees that a goroutine waits for one, and the test hangs until go test
//     ends it and shows where. The configs of RESTConfig are in memory. The same holds for a sync.Mutex that is waited for
//     while its holder sleeps, and for a select with a channel that was made outside, such as wait.NeverStop.
//   - Only requests and deliveries are ordered. In between goroutines run as they like: two workers that race for a queue
//     through memory alone are not explored. Let a controller's parts have clients of different names, so that they can be
//     told apart.
//   - A request takes no time, and so no timeout ends it, unless [BubbleWorld.Slow] says otherwise.
//   - It is not fully replayable: the order of cache.Store.List and of every map, a select with several ways to go on, the
//     jitter of retries, the timeouts of watches (some minutes) and, with more than one processor, who of two goroutines
//     comes first are not the chooser's. Sort what listers give, and run with GOMAXPROCS=1; then the same choices nearly
//     always give the same trace. [BubbleTwice] tells.
//   - A panic in a goroutine ends the test binary.
//
// A request that is stopped and let go costs some 3 µs, a step of a controller with two informers 15 to 35 µs, ten times
// that of a world of sim.Stepped, and a bubble 40 µs. It is for code that exists, not for searching through every order.
func Bubble(t *testing.T, chooser sim.Chooser, run func(t *testing.T, b *BubbleWorld)) {
	t.Helper()
	var b *BubbleWorld
	runBubble(t, &b, chooser, run)
}

// runBubble sets b before anything can fail.
func runBubble(t *testing.T, b **BubbleWorld, chooser sim.Chooser, run func(t *testing.T, b *BubbleWorld)) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			(*b).reportLeaks(t, r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		*b = newBubbleWorld(t, chooser)
		t.Cleanup((*b).end) // the first one registered is the last one called
		go (*b).drive()
		defer (*b).refuseAll()
		run(t, *b)
	})
}

func newBubbleWorld(t *testing.T, chooser sim.Chooser) *BubbleWorld {
	b := &BubbleWorld{
		t: t, chooser: chooser, clock: clock.RealClock{}, id: bubbleID(), stepsMax: bubbleSteps,
		arrived: make(chan struct{}, 1), resting: make(chan chan struct{}),
		done: make(chan struct{}), stopped: make(chan struct{}), defaultCalls: map[int]string{},
	}
	b.start = b.clock.Now()
	b.server = fake.NewServer(fake.Config{Now: b.clock.Now})
	b.ctx, b.cancel = context.WithCancel(t.Context())
	return b
}

// Server is the API server: for looking at, and for what only it can do. Its own clients are not stopped.
func (b *BubbleWorld) Server() *fake.Server { return b.server }

// Context ends when run returns, or a bound is reached.
func (b *BubbleWorld) Context() context.Context { return b.ctx }

// Trace is the record of what happened: every request, in order, and every event that reached a watcher. The actor of a
// record is the name of its client.
func (b *BubbleWorld) Trace() *trace.Log { return &b.log }

// Client returns a clientset whose requests, and the events of whose watches, are stopped. name stands for it in the
// trace.
func (b *BubbleWorld) Client(name string) *fake.Clientset { return b.server.Client(b.Caller(name)) }

// RESTConfig returns a config of client-go, in memory, for clients and managers of any kind. What is made of it is
// stopped like a Client, at each request and each event.
func (b *BubbleWorld) RESTConfig(name string) *clientrest.Config {
	return apiserver.NewConfig(b.server, b.Caller(name))
}

// Caller returns what Client and RESTConfig are made over: for drivers, and clients of other kinds. When the run is over,
// a call has no effect, and an error for an outcome; it unwinds nothing.
func (b *BubbleWorld) Caller(name string) sim.Caller { return bubbleCaller{b, name} }

// Direct returns a clientset for the test itself: its requests take effect at once. In the trace its name is "test".
func (b *BubbleWorld) Direct() *fake.Clientset { return b.server.Client(direct{b}) }

// Settle lets d pass, and then everything happen that can without more time; it returns when every goroutine is blocked.
// It is for the goroutine of run, and ends the test if a bound was reached.
func (b *BubbleWorld) Settle(d time.Duration) {
	b.t.Helper()
	for {
		part := min(d, bubbleLife/2) // the driver sees that run has not got stuck
		b.clock.Sleep(part)
		rest := make(chan struct{})
		b.resting <- rest
		<-rest
		b.mu.Lock()
		failed := b.failed
		b.mu.Unlock()
		if failed {
			b.t.FailNow()
		}
		if d -= part; d <= 0 {
			return
		}
	}
}

// Slow makes requests and deliveries take time: from now on a chooser may, besides letting one go, let time pass until
// somebody comes, at most d. That is the last choice. Without Slow no timer fires while anybody waits. 0 ends it.
func (b *BubbleWorld) Slow(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow = d
}

// end is called when the run, and what it left to clean up, is over: in the bubble.
func (b *BubbleWorld) end() {
	close(b.done)
	<-b.stopped
	b.clock.Sleep(bubbleGrace)
	synctest.Wait()
	b.ended = true
	if b.t.Failed() {
		b.t.Log(b.story())
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
