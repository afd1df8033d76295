package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Epoch is the time at which a stepped world begins.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// ErrQuiescent is matched by the error of a Wait for a condition that can no longer become true: no
// task can run.
var ErrQuiescent = errors.New("no task can run")

// ErrSteps is matched by the error of a Run or Wait that reached the bound on steps: the world may
// be in a loop.
var ErrSteps = errors.New("bound on steps reached")

// stepsMax is the default bound on the steps of a stepped world.
const stepsMax = 1_000_000

// Stepped is the host that runs one task at a time, on one goroutine and a virtual clock. The
// default order is: deliveries, tasks in flight, workers and timers, users. Within each group the
// task that ran longest ago comes first, then the one that was registered first. The clock advances
// only when no task can run. Its methods, except Now and Err, must be called from one goroutine. A
// call by another one, such as one that a task started, is refused with an error, and the run fails
// with it; see Err.
type Stepped struct {
	strategy Strategy
	log      *trace.Log
	now      atomic.Int64 // nanoseconds since Epoch; atomic, as other goroutines may call Now while a task runs
	max      int
	callers  bool // records the stacks of calls

	processes     []*Process
	tasks         []*Task    // in order of registration
	timers        []*Timer   // armed ones, in no order
	watchdogs     []*Timer   // all, of live processes
	touched       []*Process // processes whose tasks must be checked; see touch
	woken         []*Task    // tasks that must be checked; see wakeTask
	worldWaiters  []*Task    // tasks that wait for a condition on the whole world
	enabled       []*Task    // tasks that could run at the last check, in no order
	eventSources  eventSources
	options       []*Task // scratch of Step
	current       *Task
	pool          *Pool
	ownsPool      bool          // the pool belongs to the host
	reused        *reuse.Memory // nil: none; see Pool.Memory
	decision      Decision      // scratch of Step
	panics        []Panic
	nextID        int
	steps         int
	strategyStart int // steps made when the strategy was set
	choices       int
	changes       int // number of changes outside the processes: what polls look for
	stopped       bool
	guard         guard
	observer      AccessObserver  // the strategy, if it is one
	ctx           context.Context //nolint:containedctx // of the tasks
}

// SteppedConfig configures NewStepped. The zero value follows the default order.
type SteppedConfig struct {
	Chooser  Chooser    // nil: FIFO
	Strategy Strategy   // replaces the Chooser if not nil
	Log      *trace.Log // nil: a new one
	StepsMax int        // 0: StepsMax
	Pool     *Pool      // nil: a new one
	Callers  bool       // records the call stack of each API request and driver call, which takes time
}

// NewStepped returns a stepped host. Close it, or its suspended tasks stay in memory.
func NewStepped(cfg SteppedConfig) *Stepped {
	s := &Stepped{strategy: cfg.Strategy, log: cfg.Log, max: cfg.StepsMax, callers: cfg.Callers}
	switch {
	case s.strategy != nil:
	case cfg.Chooser != nil:
		s.strategy = chooserStrategy{cfg.Chooser}
	default:
		s.strategy = chooserStrategy{FIFO{}}
	}
	if s.max == 0 {
		s.max = stepsMax
	}
	s.observer, _ = s.strategy.(AccessObserver)
	s.guard.own()
	s.pool = cfg.Pool
	if s.pool == nil {
		s.pool, s.ownsPool = &Pool{}, true
	}
	s.takeMemory()
	if s.log == nil {
		s.log, s.pool.log = cmp.Or(s.pool.log, &trace.Log{}), nil
	}
	s.ctx = trace.NewContext(context.Background(), s.log)
	return s
}

// SetStrategy replaces the Strategy and restarts the step count that the strategy sees.
func (s *Stepped) SetStrategy(strategy Strategy) {
	s.strategy, s.strategyStart = strategy, s.steps
	s.observer, _ = strategy.(AccessObserver)
}

// Process adds a process.
func (s *Stepped) Process(name string) *Process {
	p := &Process{name: name, host: s}
	s.processes = append(s.processes, p)
	return p
}

// ExternalCaller returns the caller for code outside all processes. On the goroutine that runs the
// host it acts at once; from within a task it suspends that task.
func (s *Stepped) ExternalCaller() Caller { return externalCaller{s} }

// setUp runs a function that registers tasks.
func (s *Stepped) setUp(_ *Process, f func() error) error { return f() }

// Log returns the trace.
func (s *Stepped) Log() *trace.Log { return s.log }

// Now returns the virtual time. It may be called from anywhere, at any time.
func (s *Stepped) Now() time.Time { return Epoch.Add(s.since()) }

// since returns the virtual time since the world began.
func (s *Stepped) since() time.Duration { return time.Duration(s.now.Load()) }

// Context returns the context of the tasks. It is never cancelled.
func (s *Stepped) Context() context.Context { return s.ctx }

// Start does nothing: a stepped world runs when it is stepped.
func (s *Stepped) Start() {}

// Steps returns the number of steps made.
func (s *Stepped) Steps() int { return s.steps }

// Choices returns the number of steps so far at which more than one task could run.
func (s *Stepped) Choices() int { return s.choices }

// Step runs one task or injects one event, and reports whether it did. It returns false when the
// world is quiescent, which means that only heartbeats and background timers are left and each of the
// latter has fired since the last change. It also returns false when the strategy stopped the run,
// and when Err is not nil.
func (s *Stepped) Step() bool {
	if s.stopped || s.guard.failed.Load() {
		return false
	}
	s.guard.own()
	enabled := s.ready()
	if len(enabled) == 0 {
		if !s.advance() {
			return false
		}
		enabled = s.ready()
	}
	s.options = append(s.options[:0], enabled...)
	if len(s.options) > 1 {
		s.choices++
	}
	s.decision = Decision{host: s, options: s.options}
	d := &s.decision
	move := s.strategy.Decide(d)
	switch {
	case move.Stop:
		s.stopped = true
		return false
	case move.Event != "":
		if !s.Inject(move.Event) {
			panic("sim: the strategy chose an impossible event: " + move.Event)
		}
		return true
	}
	s.steps++
	t := d.Task(move.Option)
	t.fault = move.Fault
	s.runTask(t)
	return true
}

// PanickedTask returns the task whose panic left Step, and its stack if it has one of its own. Both
// are "" if no task panicked.
func (s *Stepped) PanickedTask() (task, stack string) {
	if s.current == nil {
		return "", ""
	}
	if s.current.co != nil {
		stack = s.current.co.stack
	}
	return s.current.full, stack
}

// Busy reports whether a task can run now, without advancing the clock.
func (s *Stepped) Busy() bool { return len(s.ready()) > 0 }

// Stopped reports whether the strategy stopped the run.
func (s *Stepped) Stopped() bool { return s.stopped }

// Resume continues a run that the strategy stopped.
func (s *Stepped) Resume() { s.stopped = false }

// Run makes steps until the world is quiescent. It fails with ErrSteps at the bound, and with Err.
func (s *Stepped) Run() error {
	defer s.guard.run()()
	for s.Step() {
		if s.steps >= s.max {
			return fmt.Errorf("%w: %d", ErrSteps, s.steps)
		}
	}
	return s.Err()
}

// Wait makes steps until cond holds. Called from within a task it suspends the task until then. It
// fails with ErrQuiescent when no task can run and make cond hold, with ErrSteps at the bound, and
// with Err. what names the condition in the error.
func (s *Stepped) Wait(ctx context.Context, what string, cond func() bool) error {
	if err := s.check(nil, trace.Action{Kind: trace.KindWait, Verb: "wait for", Object: what}); err != nil {
		return err
	}
	if s.current != nil {
		s.waitExternal(what, cond)
		return nil
	}
	defer s.guard.run()()
	for !cond() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if !s.Step() {
			return fmt.Errorf("wait for %s: %w", what, cmp.Or(s.Err(), ErrQuiescent))
		}
		if s.steps >= s.max {
			return fmt.Errorf("wait for %s: %w: %d", what, ErrSteps, s.steps)
		}
	}
	return nil
}

// Waiting returns the tasks that wait for a condition that does not hold, sorted, as "TASK waits
// for CONDITION".
func (s *Stepped) Waiting() []string {
	var names []string
	for _, t := range s.tasks {
		if t.state == stateWaiting && !t.cond() {
			names = append(names, t.full+" waits for "+t.pendingCall.Object)
		}
	}
	slices.Sort(names)
	return names
}

// Close unwinds every task. The host is unusable afterwards.
func (s *Stepped) Close() {
	s.guard.own()
	s.guard.closed.Store(true)
	for _, t := range s.tasks {
		if t.co != nil {
			s.current = t
			s.guard.enter(t.co.id)
			t.co.stop()
		}
	}
	s.current = nil
	if s.ownsPool {
		s.pool.Close()
	}
	s.tasks = nil
	s.returnMemory()
}

func (s *Stepped) runTask(t *Task) {
	t.lastRun = s.steps
	s.touch(t.process)
	s.current = t
	if s.observer != nil {
		s.observeMemory(t)
	}
	switch {
	case t.inline:
		if t.timer != nil {
			t.timer.changesSeen = s.changes
			s.record(t.full, trace.Action{Kind: trace.KindTimer, Verb: "fire"}, trace.Outcome{}, 0)
		}
		t.runStep(s.Context())
	case t.state == stateIdle:
		t.co = s.pool.get()
		s.guard.enter(t.co.id)
		t.goroutines = 0
		if s.pool.counted < countedMax {
			s.pool.counted++
			t.goroutines = otherGoroutines()
		}
		if t.begin == nil {
			t.begin = func() { t.step(t.process.host.Context()) }
		}
		t.co.start(t.begin)
		s.finishTask(t)
	default:
		s.guard.enter(t.co.id)
		t.co.next()
		s.finishTask(t)
	}
	s.current = nil
}

// finishTask makes a task idle whose work has ended, or removes it.
func (s *Stepped) finishTask(t *Task) {
	if !t.co.idle {
		return
	}
	if t.goroutines > 0 && otherGoroutines() > t.goroutines {
		s.checkOutlived(t)
	}
	s.pool.put(t.co)
	t.co, t.state, t.fault = nil, stateIdle, Fault{}
	if t.once {
		t.state = stateDone
		s.remove(t)
	}
}

func (s *Stepped) call(p *Process, action trace.Action, e effect) trace.Outcome {
	if err := s.check(p, action); err != nil {
		return trace.Outcome{Err: err}
	}
	t := s.suspend(stateSuspended, action)
	name, fault := "user", Fault{}
	if t != nil {
		name, fault = t.full, t.fault // which a call within the effect replaces
	}
	if p != nil && (t == nil || t.process != p) { // the task of another process is in code of this one
		if p.dead {
			return trace.Outcome{Err: fmt.Errorf("%s %s: %w", action.Verb, action.Object, errCrashed)}
		}
		if action.Kind == trace.KindDriver {
			name = p.name
		}
	}
	out := s.perform(t, action, e)
	s.record(name, action, out, 0)
	if out.Err != nil && fault.Kind == FaultHang {
		s.sleepAs(t, hangTimeout)
	}
	return out
}

// perform runs the effect of a call, perhaps with a fault.
func (s *Stepped) perform(t *Task, action trace.Action, e effect) trace.Outcome {
	if t == nil || t.fault.Kind == "" || !t.fault.Applies(action) {
		return e.do(nil)
	}
	s.changes++ // a poll may have seen the fault and must run again
	return t.fault.apply(action, e)
}

func (s *Stepped) sleep(p *Process, d time.Duration) {
	if s.check(p, trace.Action{Kind: trace.KindSleep, Verb: "sleep", Object: d.String()}) != nil {
		return
	}
	t := s.current
	if t == nil {
		panic("sim: Sleep outside a task")
	}
	s.sleepAs(t, d)
}

func (s *Stepped) sleepAs(t *Task, d time.Duration) {
	t.wakeAt = s.Now().Add(d)
	action := trace.Action{Kind: trace.KindSleep, Verb: "woke", Object: d.String()}
	s.suspend(stateSleeping, action)
	s.record(t.full, action, trace.Outcome{}, 0)
}

func (s *Stepped) wait(p *Process, signal *Signal, what string, limit time.Duration, cond func() bool) bool {
	if s.check(p, trace.Action{Kind: trace.KindWait, Verb: "wait for", Object: what}) != nil {
		return false
	}
	t := s.current
	if t == nil {
		panic("sim: Process.Wait outside a task")
	}
	if !cond() {
		t.cond, t.wakeAt = cond, time.Time{}
		if t.signal, t.signaled = signal, false; signal != nil {
			signal.process, signal.waiting = p, append(signal.waiting, t)
			defer func() {
				signal.waiting = removeFirst(signal.waiting, t)
				t.signal = nil
			}()
		}
		if limit > 0 {
			t.wakeAt = s.Now().Add(limit)
		}
		s.suspend(stateWaiting, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what})
	}
	holds := cond()
	s.record(t.full, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}, outcomeOfWait(holds), 0)
	return holds
}

// broadcast makes the tasks that wait on a signal check their conditions.
func (s *Stepped) broadcast(signal *Signal) {
	for _, t := range signal.waiting {
		t.signaled = true
	}
	s.touch(signal.process)
}

func (s *Stepped) recordPanic(p Panic) { s.panics = append(s.panics, p) }

// Panics returns the panics from which tasks recovered.
func (s *Stepped) Panics() []Panic { return s.panics }

// waitExternal suspends the task of a user until cond, which may depend on anything in the world,
// holds.
func (s *Stepped) waitExternal(what string, cond func() bool) {
	t := s.current
	action := trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}
	t.cond, t.wakeAt = cond, time.Time{}
	s.worldWaiters = append(s.worldWaiters, t)
	s.suspend(stateWaiting, action)
	s.worldWaiters = slices.DeleteFunc(s.worldWaiters, func(other *Task) bool { return other == t })
	s.record(t.full, action, trace.Outcome{}, 0)
}

func outcomeOfWait(holds bool) trace.Outcome {
	if holds {
		return trace.Outcome{}
	}
	return trace.Outcome{Detail: "timed out"}
}

// suspend suspends the running task, and returns it when it is scheduled again. Outside a task it
// does nothing and returns nil.
func (s *Stepped) suspend(as state, action trace.Action) *Task {
	t := s.current
	if t == nil {
		if s.guard.closed.Load() {
			panic(unwound{})
		}
		return nil
	}
	if t.inline {
		panic(fmt.Sprintf("sim: task %s must not suspend (%s)", t.full, action))
	}
	t.state, t.pendingCall = as, action
	t.co.suspend()
	return t
}

func (s *Stepped) arm(t *Timer) {
	if t.missed != nil && !slices.Contains(s.watchdogs, t) {
		s.watchdogs = append(s.watchdogs, t)
	}
	i := slices.Index(s.timers, t)
	switch {
	case t.armed && i < 0:
		s.timers = append(s.timers, t)
	case !t.armed && i >= 0:
		s.timers = slices.Delete(s.timers, i, i+1)
	}
	s.touch(t.process)
}

func (s *Stepped) wake(p *Process) { s.touch(p) }

func (s *Stepped) isClosed() bool { return s.guard.closed.Load() }

func (s *Stepped) currentTask(p *Process) string {
	if s.current != nil {
		return s.current.full
	}
	return p.name
}

// externalCaller is the caller of code outside all processes.
type externalCaller struct{ engine }

func (o externalCaller) Call(action trace.Action, run func() trace.Outcome) trace.Outcome {
	return o.perform(action, effect{run: run})
}

// perform makes a call. After Close a write fails, and a read is not recorded.
func (o externalCaller) perform(action trace.Action, e effect) trace.Outcome {
	switch {
	case !o.isClosed():
		return o.call(nil, action, e)
	case writes(action):
		return trace.Outcome{Err: fmt.Errorf("%s %s: %w", action.Verb, action.Object, errHostClosed)}
	default:
		return e.do(nil)
	}
}
