package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/volsim/volsim/sim/trace"
)

// Live is the host that gives every actor a goroutine on the real clock. An actor sleeps until something may have made
// it ready; nothing polls. All methods may be called concurrently.
//
// Writes to the API server are made one after the other, so that the log tells causes before effects: nobody acts on a
// write, or returns from waiting for it, before it is in the log.
type Live struct {
	clock  clock.WithDelayedExecution
	log    *trace.Log
	epoch  time.Time
	ctx    context.Context //nolint:containedctx // the lifetime of the host itself
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	waiting []*Task       // guarded by mu: registered before Start
	started bool          // guarded by mu
	changed chan struct{} // guarded by mu: closed when those who wait are to ask again
	waiters atomic.Int32  // how many Waits there are

	order  sync.RWMutex            // held by a write until it is in the log, so that nobody acts on it before
	writer atomic.Pointer[Process] // whose write it is; nil: of no component, or there is none
}

// LiveConfig is what NewLive must be told. The zero value is the real clock and a log of its own.
type LiveConfig struct {
	Clock clock.WithDelayedExecution // nil: the real clock
	Log   *trace.Log                 // nil: one of its own
}

// NewLive makes a live host. Its actors begin to move with Start and end with Close.
func NewLive(cfg LiveConfig) *Live {
	l := &Live{clock: cfg.Clock, log: cfg.Log, changed: make(chan struct{})}
	if l.clock == nil {
		l.clock = clock.RealClock{}
	}
	if l.log == nil {
		l.log = &trace.Log{}
	}
	l.epoch = l.clock.Now()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Process adds a component.
func (l *Live) Process(name string) *Process { return &Process{name: name, host: l} }

// ExternalCaller is the caller for code that is not of a component.
func (l *Live) ExternalCaller() Caller { return externalCaller{l} }

// Log is the record of what happened.
func (l *Live) Log() *trace.Log { return l.log }

// Now is the clock's time.
func (l *Live) Now() time.Time { return l.clock.Now() }

// Context is the context strands run under; Close cancels it.
func (l *Live) Context() context.Context { return l.ctx }

// Start lets the actors move.
func (l *Live) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
	for _, a := range l.waiting {
		l.launch(a)
	}
	l.waiting = nil
}

// Close unwinds every strand at its next call, cancels the context of calls under way, and returns when all goroutines
// have ended.
func (l *Live) Close() {
	l.mu.Lock()
	l.started = true // nothing is launched from now on
	l.cancel()
	l.mu.Unlock()
	l.wg.Wait()
}

// Wait returns when cond holds, and the requests that made it hold are in the log. It asks again whenever a
// strand has left its component; cond must be safe to call from this goroutine. It fails when ctx ends or the host is closed. what names what is
// waited for.
func (l *Live) Wait(ctx context.Context, what string, cond func() bool) error {
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if cond() {
			l.barrier()
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-l.ctx.Done():
			return fmt.Errorf("wait for %s: the world was closed", what)
		}
	}
}

func (l *Live) add(a *Task) {
	if !a.once {
		a.sleeper = newSleeper(a.ready)
		if a.inline {
			a.sleeper.inlineTask = a
		}
		a.process.addSleeper(a.sleeper)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.waiting = append(l.waiting, a)
		return
	}
	l.launch(a)
}

// launch starts the actor's goroutine; mu is held, so that none is added after Close began to wait.
func (l *Live) launch(a *Task) {
	switch {
	case l.ctx.Err() != nil:
	case a.once:
		l.wg.Go(func() { l.runOnce(a) })
	default:
		l.wg.Go(func() { l.run(a) })
	}
}

func (l *Live) run(a *Task) {
	for l.await(a) {
		l.step(a)
	}
}

// runOnce moves a strand that is ready from its beginning.
func (l *Live) runOnce(a *Task) {
	deepen()
	a.process.enter(a.full)
	if l.ctx.Err() != nil {
		a.process.mu.Unlock()
		return
	}
	l.step(a)
}

// deepen makes the goroutine's stack as deep as that of one that writes to the API server, as long as there is next to nothing
// on it: to make it so later, step by step, takes a tenth of all that an operation takes.
//
//go:noinline
func deepen() {
	var frame [10 << 10]byte
	touch(frame[:])
}

//go:noinline
func touch(frame []byte) { frame[len(frame)-1] = 1 }

// await returns true with the monitor held when the actor is ready, and false when the host was closed.
func (l *Live) await(a *Task) bool {
	for l.ctx.Err() == nil {
		a.process.enter(a.full)
		if a.sleeper.isReady() {
			return true
		}
		a.process.mu.Unlock()
		select {
		case <-a.sleeper.token:
		case <-l.ctx.Done():
		}
	}
	return false
}

func (l *Live) step(a *Task) {
	defer l.leave(a.process)
	defer recoverUnwound()
	l.runTask(a)
}

// runTask makes a step of an actor, in the monitor.
func (l *Live) runTask(a *Task) {
	if a.timer != nil {
		l.record(a.full, trace.Action{Kind: trace.KindTimer, Verb: "fire"}, trace.Outcome{}, 0)
	}
	a.step(l.ctx)
}

func (l *Live) call(c *Process, action trace.Action, effect func() trace.Outcome) (out trace.Outcome) {
	if c == nil {
		defer l.notifyWaits()
		return l.perform(nil, "user", action, effect)
	}
	strand := c.runningTask
	l.leave(c)
	func() {
		defer c.enter(strand)
		if l.ctx.Err() == nil {
			out = l.perform(c, strand, action, effect)
		}
	}()
	if l.ctx.Err() != nil {
		panic(unwound{})
	}
	return out
}

func (l *Live) perform(c *Process, actor string, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if writes(action) {
		l.order.Lock()
		defer l.order.Unlock()
		l.writer.Store(c)
		defer l.writer.Store(nil)
	} else {
		l.barrier()
	}
	began := l.clock.Now()
	out := effect()
	ended := l.clock.Now()
	l.append(ended, actor, action, out, ended.Sub(began))
	return out
}

// writes tells whether an action is a request that may change what the API server holds.
func writes(action trace.Action) bool {
	verb, _, _ := strings.Cut(action.Verb, "/")
	return action.Kind == trace.KindAPI && verb != "get" && verb != "list" && verb != "watch"
}

// barrier returns when the writes that have taken effect are in the log.
func (l *Live) barrier() {
	l.order.RLock()
	defer l.order.RUnlock() // nothing is guarded: it is the waiting that counts
}

func (l *Live) sleep(c *Process, d time.Duration) {
	strand := c.runningTask
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	l.leave(c)
	select {
	case <-timer.C():
	case <-l.ctx.Done():
	}
	c.enter(strand)
	if l.ctx.Err() != nil {
		panic(unwound{})
	}
	l.record(strand, trace.Action{Kind: trace.KindSleep, Verb: "woke", Object: d.String()}, trace.Outcome{}, 0)
}

func (l *Live) wait(c *Process, on *Signal, what string, limit time.Duration, cond func() bool) bool {
	strand := c.runningTask
	waiter := newSleeper(cond)
	if on != nil {
		on.process, on.sleeping = c, append(on.sleeping, waiter)
		defer func() { on.sleeping = removeFirst(on.sleeping, waiter) }()
	} else {
		c.addSleeper(waiter)
		defer c.dropSleeper(waiter)
	}
	var expired <-chan time.Time
	if limit > 0 {
		timer := l.clock.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C()
	}
	holds, over := waiter.isReady(), false
	for !holds && !over {
		l.leave(c)
		select {
		case <-waiter.token:
		case <-expired:
			over = true
		case <-l.ctx.Done():
		}
		c.enter(strand)
		if l.ctx.Err() != nil {
			panic(unwound{})
		}
		holds = waiter.isReady()
	}
	l.record(strand, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}, outcomeOfWait(holds), 0)
	return holds
}

// broadcast wakes those who wait on a signal.
func (l *Live) broadcast(on *Signal) {
	for _, s := range on.sleeping {
		s.wake()
	}
}

func (l *Live) recordPanic(Panic) {}

func (l *Live) arm(t *Timer) {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	if t.armed {
		token := t.task.sleeper.token // all that the clock holds of a world that has ended
		t.stop = l.clock.AfterFunc(t.deadline.Sub(l.clock.Now()), func() { putToken(token) }).Stop
	}
}

func (l *Live) wake(c *Process) {
	for _, s := range c.allSleepers() {
		s.wake()
	}
}

// wakeTask wakes a strand, unless another strand of its component is about to come back from a write: it will leave the
// component again, and see to it.
func (l *Live) wakeTask(a *Task) {
	if l.writer.Load() != a.process {
		a.sleeper.wake()
	}
}

func (l *Live) record(actor string, action trace.Action, out trace.Outcome, took time.Duration) {
	l.barrier()
	l.append(l.clock.Now(), actor, action, out, took)
}

// append puts an action into the log.
func (l *Live) append(at time.Time, actor string, action trace.Action, out trace.Outcome, took time.Duration) {
	l.log.Append(trace.Record{At: at.Sub(l.epoch), Task: actor, Action: action, Outcome: out, Took: took})
}

// notifyWaits lets those who wait ask again. It is called when a strand has left its component, and not sooner: what it tells
// by other means than actions, it may tell after the last of them.
func (l *Live) notifyWaits() {
	if l.waiters.Load() == 0 {
		return // who begins to wait now asks for the first time, and finds what is so already
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Live) currentTask(c *Process) string { return c.runningTask }
