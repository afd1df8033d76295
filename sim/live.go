package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/volsim/volsim/sim/trace"
)

// Live is the host that gives every task a goroutine on the real clock. A task sleeps until
// something may have made it ready; nothing polls. All methods may be called concurrently.
//
// Writes to the API server change it one at a time, so that the log has causes before effects. No
// task acts on a change, or returns from waiting for it, before the write is in the log.
type Live struct {
	clock  clock.WithDelayedExecution
	log    *trace.Log
	epoch  time.Time
	ctx    context.Context //nolint:containedctx // the lifetime of the host itself
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	waiting []*Task       // guarded by mu: registered before Start, or while their process is set up
	started bool          // guarded by mu
	changed chan struct{} // guarded by mu: closed when the conditions of Waits must be checked again
	waiters atomic.Int32  // number of Waits

	order  sync.RWMutex            // held by a write from its change until it is in the log, so that no task acts on it before
	writer atomic.Pointer[Process] // the process that writes; nil: none

	eventSources eventSources

	injecting sync.Mutex             // held by Inject
	injected  atomic.Pointer[string] // the event that is being injected and is not in the log; nil: none
}

// LiveConfig configures NewLive. The zero value is the real clock and a new log.
type LiveConfig struct {
	Clock clock.WithDelayedExecution // nil: the real clock
	Log   *trace.Log                 // nil: a new one
	// Speed is how many times as fast as the Clock the time of the world passes. 0 means 1.
	Speed int
}

// NewLive returns a live host. Its tasks start with Start and end with Close.
func NewLive(cfg LiveConfig) *Live {
	l := &Live{clock: cfg.Clock, log: cfg.Log, changed: make(chan struct{})}
	if l.clock == nil {
		l.clock = clock.RealClock{}
	}
	if l.log == nil {
		l.log = &trace.Log{}
	}
	if cfg.Speed > 1 {
		l.clock = newFastClock(l.clock, cfg.Speed)
	}
	l.epoch = l.clock.Now()
	l.ctx, l.cancel = context.WithCancel(trace.NewContext(context.Background(), l.log))
	return l
}

// Process adds a process.
func (l *Live) Process(name string) *Process {
	p := &Process{name: name, host: l}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	return p
}

// ExternalCaller returns the caller for code outside all processes.
func (l *Live) ExternalCaller() Caller { return externalCaller{l} }

// Log returns the trace.
func (l *Live) Log() *trace.Log { return l.log }

// Now returns the time of the clock.
func (l *Live) Now() time.Time { return l.clock.Now() }

// Context returns the parent of the contexts of the tasks. Close cancels it.
func (l *Live) Context() context.Context { return l.ctx }

// Start starts the tasks.
func (l *Live) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
	l.launchWaiting()
}

// launchWaiting launches the tasks that wait, except those of processes that are being set up. The
// caller holds mu.
func (l *Live) launchWaiting() {
	l.waiting = slices.DeleteFunc(l.waiting, func(t *Task) bool {
		if !t.process.settingUp {
			l.launch(t)
		}
		return !t.process.settingUp
	})
}

// Close unwinds every task at its next call, cancels the context of calls in flight, and returns
// when all goroutines have ended.
func (l *Live) Close() {
	l.mu.Lock()
	l.started = true // no task is launched from now on
	l.cancel()
	l.mu.Unlock()
	l.wg.Wait()
}

// Crash ends a process, as if it had been killed. Each of its tasks is unwound at the call that it is
// making or makes next. The context of calls in flight is cancelled; what they have changed stays.
// When Crash returns, no task of the process runs any more, and goroutines that its tasks started
// can make no calls. The process is unusable afterwards; a new one may have its name. A task of the
// process must not call Crash.
func (l *Live) Crash(p *Process) {
	l.mu.Lock()
	p.cancel()
	l.waiting = slices.DeleteFunc(l.waiting, func(t *Task) bool { return t.process == p })
	l.mu.Unlock()
	p.running.Wait()
	p.crashed()
	l.recordInjected()
	l.notifyWaits()
}

// errCrashed is the error of a call by a goroutine of a process that has crashed.
var errCrashed = errors.New("process crashed")

// setUp runs a function that registers tasks, and starts them afterwards.
func (l *Live) setUp(p *Process, f func() error) error {
	set := func(to bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.settingUp = to
		if !to && l.started {
			l.launchWaiting()
		}
	}
	set(true)
	defer set(false)
	defer l.recordInjected()
	return f()
}

// Wait returns when cond holds and the requests that made it hold are in the log. It checks cond
// whenever a task has suspended; cond must be safe to call from this goroutine. It fails when ctx
// ends or the host is closed. what names the condition in the error.
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
			return fmt.Errorf("wait for %s: %w", what, errHostClosed)
		}
	}
}

func (l *Live) taskName(process, task string) string { return fullName(process, task) }

func (l *Live) add(t *Task) {
	if !t.once {
		t.sleeper = newSleeper(t.isIdleReady)
		if t.inline {
			t.sleeper.inlineTask = t
		}
		t.process.addSleeper(t.sleeper)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started || t.process.settingUp {
		l.waiting = append(l.waiting, t)
		return
	}
	l.launch(t)
}

// launch starts the goroutine of a task. The caller holds mu, so that no goroutine is added after
// Close or Crash began to wait.
func (l *Live) launch(t *Task) {
	run := l.run
	switch {
	case t.process.ctx.Err() != nil:
		return
	case t.once:
		run = l.runOnce
	}
	t.process.running.Add(1)
	l.wg.Go(func() {
		defer t.process.running.Done()
		run(t)
	})
}

func (l *Live) run(t *Task) {
	for l.await(t) {
		l.step(t)
	}
}

// runOnce runs a task that is ready from the start.
func (l *Live) runOnce(t *Task) {
	deepen()
	t.process.enter(t.full)
	if t.process.ctx.Err() != nil {
		t.process.exit()
		return
	}
	l.step(t)
}

// deepen grows the stack of the goroutine to what a write to the API server needs, while there is
// almost nothing on it. Growing it later, step by step, takes a tenth of the time of an operation.
//
//go:noinline
func deepen() {
	var frame [10 << 10]byte
	touch(frame[:])
}

//go:noinline
func touch(frame []byte) { frame[len(frame)-1] = 1 }

// await reports whether the task became ready, and then returns with the monitor held. It returns
// false when the process has ended.
func (l *Live) await(t *Task) bool {
	for t.process.ctx.Err() == nil {
		t.process.enter(t.full)
		if t.sleeper.isReady() {
			return true
		}
		t.process.exit()
		select {
		case <-t.sleeper.token:
		case <-t.process.ctx.Done():
		}
	}
	return false
}

func (l *Live) step(t *Task) {
	defer l.leave(t.process)
	defer recoverUnwound()
	l.runTask(t)
}

// runTask runs one step of a task. The caller holds the monitor.
func (l *Live) runTask(t *Task) {
	if t.timer != nil {
		l.record(t.full, trace.Action{Kind: trace.KindTimer, Verb: "fire"}, trace.Outcome{}, 0)
	}
	t.runStep(t.process.ctx)
}

func (l *Live) call(p *Process, action trace.Action, e effect) (out trace.Outcome) {
	if p == nil {
		defer l.notifyWaits()
		return l.perform(nil, "user", action, e)
	}
	if !p.entered() { // a goroutine that a task started; or the component is being set up
		if p.ctx.Err() != nil && l.ctx.Err() == nil {
			return trace.Outcome{Err: fmt.Errorf("%s %s: %w", action.Verb, action.Object, errCrashed)}
		}
		defer l.notifyWaits()
		return l.perform(p, p.name, action, e)
	}
	task := p.runningTask
	l.leave(p)
	func() {
		defer p.enter(task)
		if p.ctx.Err() == nil {
			out = l.perform(p, task, action, e)
		}
	}()
	if p.ctx.Err() != nil {
		panic(unwound{})
	}
	return out
}

// perform runs the effect of a call, and records it.
func (l *Live) perform(p *Process, task string, action trace.Action, e effect) (out trace.Outcome) {
	var c *Commit
	if writes(action) {
		c = &Commit{live: l, process: p}
		defer c.end()
	}
	l.barrier()
	began := l.clock.Now()
	if c != nil && e.commit == nil {
		c.Try(func() bool { began, out = l.clock.Now(), e.run(); return true })
	} else {
		out = e.do(c)
	}
	if c == nil || !c.made {
		l.barrier() // the effect may have seen a change that is not in the log
	}
	ended := l.clock.Now()
	l.append(ended, task, action, out, ended.Sub(began))
	return out
}

// writes reports whether an action is a request that may change what the API server stores.
func writes(action trace.Action) bool {
	verb, _, _ := strings.Cut(action.Verb, "/")
	return action.Kind == trace.KindAPI && verb != "get" && verb != "list" && verb != "watch"
}

// barrier returns when the writes that have taken effect are in the log.
func (l *Live) barrier() {
	l.order.RLock()
	defer l.order.RUnlock() // only the wait matters: no data is guarded
}

func (l *Live) sleep(p *Process, d time.Duration) {
	if !p.entered() {
		p.enter(p.name)
		defer l.leave(p)
	}
	task := p.runningTask
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	l.leave(p)
	select {
	case <-timer.C():
	case <-p.ctx.Done():
	}
	p.enter(task)
	if p.ctx.Err() != nil {
		panic(unwound{})
	}
	l.record(task, trace.Action{Kind: trace.KindSleep, Verb: "woke", Object: d.String()}, trace.Outcome{}, 0)
}

func (l *Live) wait(p *Process, signal *Signal, what string, limit time.Duration, cond func() bool) bool {
	if !p.entered() {
		p.enter(p.name)
		defer l.leave(p)
	}
	task := p.runningTask
	waiter := newSleeper(cond)
	if signal != nil {
		signal.process, signal.sleeping = p, append(signal.sleeping, waiter)
		defer func() { signal.sleeping = removeFirst(signal.sleeping, waiter) }()
	} else {
		p.addSleeper(waiter)
		defer p.dropSleeper(waiter)
	}
	var expired <-chan time.Time
	if limit > 0 {
		timer := l.clock.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C()
	}
	holds, over := waiter.isReady(), false
	for !holds && !over {
		l.leave(p)
		select {
		case <-waiter.token:
		case <-expired:
			over = true
		case <-p.ctx.Done():
		}
		p.enter(task)
		if p.ctx.Err() != nil {
			panic(unwound{})
		}
		holds = waiter.isReady()
	}
	l.record(task, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}, outcomeOfWait(holds), 0)
	return holds
}

// broadcast wakes the tasks that wait on a signal.
func (l *Live) broadcast(signal *Signal) {
	for _, s := range signal.sleeping {
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
		token := t.task.sleeper.token // the only reference that the clock keeps to an ended world
		t.stop = l.clock.AfterFunc(t.deadline.Sub(l.clock.Now()), func() { putToken(token) }).Stop
	}
}

func (l *Live) wake(p *Process) {
	for _, s := range p.allSleepers() {
		s.wake()
	}
}

// wakeTask wakes a task, unless another task of its process is about to return from a write: that
// one will suspend again and check the sleepers.
func (l *Live) wakeTask(t *Task) {
	if l.writer.Load() != t.process {
		t.sleeper.wake()
	}
}

func (l *Live) record(task string, action trace.Action, out trace.Outcome, took time.Duration) {
	l.barrier()
	l.append(l.clock.Now(), task, action, out, took)
}

// append adds an action to the log.
func (l *Live) append(at time.Time, task string, action trace.Action, out trace.Outcome, took time.Duration) {
	l.log.Append(trace.Record{At: at.Sub(l.epoch), Task: task, Action: action, Outcome: out, Took: took})
}

// notifyWaits makes Waits check their conditions. It is called when a task has suspended, and not
// sooner: a task may publish results by other means after its last action.
func (l *Live) notifyWaits() {
	if l.waiters.Load() == 0 {
		return // a Wait that begins now checks its condition first
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Live) isClosed() bool { return l.ctx.Err() != nil }

func (l *Live) currentTask(p *Process) string { return p.runningTask }
