package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Epoch is when a stepped world begins.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// ErrQuiescent is matched by the error of a Wait for something that cannot come any more: nothing is left to happen.
var ErrQuiescent = errors.New("nothing left to happen")

// ErrSteps is matched by the error of a Run or Wait that reached the bound on steps: the world may be running in a circle.
var ErrSteps = errors.New("bound on steps reached")

// StepsMax is the default bound on the steps of a stepped world.
const StepsMax = 1_000_000

// Stepped is the host that moves one actor at a time, on one goroutine and a virtual clock. What could happen is
// ordered: deliveries, then strands in the middle of their work, then workers and timers, then users; within each, who
// was moved longest ago, then who was registered first. Time moves only when nothing else can. Its methods, Now excepted, must
// be called from one goroutine.
type Stepped struct {
	strategy Strategy
	log      *trace.Log
	now      atomic.Int64 // since Epoch, in nanoseconds: others may ask for the time while the host is moved
	max      int

	tasks         []*Task    // in order of registration
	timers        []*Timer   // armed ones, in no order
	touched       []*Process // whose actors must be asked again; see touch
	worldWaiters  []*Task    // those that wait for something about the whole world
	enabled       []*Task    // those that could be moved, when last asked; in no order
	eventSources  []func(verb string) []Event
	options       []*Task // scratch of Step
	current       *Task
	pool          *Pool
	ownsPool      bool     // the pool is the host's own
	decision      Decision // scratch of Step
	panics        []Panic
	nextID        int
	steps         int
	strategyStart int // steps made when the strategy began
	choices       int
	changes       int // how often something outside the components changed: what polls look for
	stopped       bool
	closed        bool
}

// SteppedConfig is what NewStepped must be told. The zero value takes the ordinary course.
type SteppedConfig struct {
	Chooser  Chooser    // nil: FIFO
	Strategy Strategy   // asked instead of the Chooser, if not nil
	Log      *trace.Log // nil: one of its own
	StepsMax int        // 0: StepsMax
	Pool     *Pool      // nil: one of its own
}

// NewStepped makes a stepped host. Close it, or its suspended strands stay in memory.
func NewStepped(cfg SteppedConfig) *Stepped {
	s := &Stepped{strategy: cfg.Strategy, log: cfg.Log, max: cfg.StepsMax}
	switch {
	case s.strategy != nil:
	case cfg.Chooser != nil:
		s.strategy = chooserStrategy{cfg.Chooser}
	default:
		s.strategy = chooserStrategy{FIFO{}}
	}
	if s.log == nil {
		s.log = &trace.Log{}
	}
	if s.max == 0 {
		s.max = StepsMax
	}
	s.pool = cfg.Pool
	if s.pool == nil {
		s.pool, s.ownsPool = &Pool{}, true
	}
	return s
}

// SetStrategy has another Strategy decide from now on, and count steps from here.
func (s *Stepped) SetStrategy(strategy Strategy) { s.strategy, s.strategyStart = strategy, s.steps }

// Process adds a component.
func (s *Stepped) Process(name string) *Process {
	return &Process{name: name, host: s}
}

// ExternalCaller is the caller for code that is not of a component: from the goroutine that moves the host it acts at once,
// from within a strand it is suspended as that strand.
func (s *Stepped) ExternalCaller() Caller { return externalCaller{s} }

// Log is the record of what happened.
func (s *Stepped) Log() *trace.Log { return s.log }

// Now is the virtual time. It may be called from anywhere, at any time.
func (s *Stepped) Now() time.Time { return Epoch.Add(s.since()) }

// since is the virtual time since the world began.
func (s *Stepped) since() time.Duration { return time.Duration(s.now.Load()) }

// Context is the context strands run under; it is never cancelled.
func (s *Stepped) Context() context.Context { return context.Background() }

// Start does nothing: a stepped world moves when it is stepped.
func (s *Stepped) Start() {}

// Steps returns how many steps were made.
func (s *Stepped) Steps() int { return s.steps }

// Choices returns at how many steps so far there was more than one actor to be moved.
func (s *Stepped) Choices() int { return s.choices }

// Step lets one thing happen. It returns false when nothing is left to happen (only background timers are, and each of
// them has fired since something last changed), or when the strategy stopped the run.
func (s *Stepped) Step() bool {
	if s.stopped {
		return false
	}
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
			panic("sim: the strategy wants what cannot happen: " + move.Event)
		}
		return true
	}
	s.steps++
	a := d.Task(move.Option)
	a.fault = move.Fault
	s.runTask(a)
	return true
}

// PanickedTask is the actor whose panic came out of Step, and its stack, if it has left one of its own; both are "" if none did.
func (s *Stepped) PanickedTask() (actor, stack string) {
	if s.current == nil {
		return "", ""
	}
	if s.current.co != nil {
		stack = s.current.co.stack
	}
	return s.current.full, stack
}

// Busy tells whether something can happen now, without the clock being moved.
func (s *Stepped) Busy() bool { return len(s.ready()) > 0 }

// Stopped tells whether the strategy stopped the run.
func (s *Stepped) Stopped() bool { return s.stopped }

// Resume lets a run go on that the strategy stopped.
func (s *Stepped) Resume() { s.stopped = false }

// Run makes steps until nothing is left to happen. It gives up with ErrSteps at the bound.
func (s *Stepped) Run() error {
	for s.Step() {
		if s.steps >= s.max {
			return fmt.Errorf("%w: %d", ErrSteps, s.steps)
		}
	}
	return nil
}

// Wait makes steps until cond holds; called from within a strand it suspends the strand until then. It fails with
// ErrQuiescent when nothing is left that could make cond hold, and with ErrSteps at the bound. what names what is
// waited for.
func (s *Stepped) Wait(ctx context.Context, what string, cond func() bool) error {
	if s.current != nil {
		s.waitExternal(what, cond)
		return nil
	}
	for !cond() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if !s.Step() {
			return fmt.Errorf("wait for %s: %w", what, ErrQuiescent)
		}
		if s.steps >= s.max {
			return fmt.Errorf("wait for %s: %w: %d", what, ErrSteps, s.steps)
		}
	}
	return nil
}

// Waiting names the strands that wait for something that does not hold, sorted: what is still owed when nothing is left
// to happen.
func (s *Stepped) Waiting() []string {
	var names []string
	for _, a := range s.tasks {
		if a.state == stateWaiting && !a.cond() {
			names = append(names, a.full+" waits for "+a.pendingCall.Object)
		}
	}
	slices.Sort(names)
	return names
}

// Close unwinds every strand where it stands. The host is of no use afterwards.
func (s *Stepped) Close() {
	s.closed = true
	for _, a := range s.tasks {
		if a.co != nil {
			s.current = a
			a.co.stop()
		}
	}
	s.current = nil
	if s.ownsPool {
		s.pool.Close()
	}
	s.tasks = nil
}

func (s *Stepped) runTask(a *Task) {
	a.lastRun = s.steps
	s.touch(a.process)
	s.current = a
	switch {
	case a.inline:
		if a.timer != nil {
			a.timer.changesSeen = s.changes
			s.record(a.full, trace.Action{Kind: trace.KindTimer, Verb: "fire"}, trace.Outcome{}, 0)
		}
		a.step(s.Context())
	case a.state == stateIdle:
		a.co = s.pool.get()
		a.co.start(func() { a.step(s.Context()) })
		s.finishTask(a)
	default:
		a.co.next()
		s.finishTask(a)
	}
	s.current = nil
}

// finishTask puts an actor whose work is done back to idle, or lets it go.
func (s *Stepped) finishTask(a *Task) {
	if !a.co.idle {
		return
	}
	s.pool.put(a.co)
	a.co, a.state, a.fault = nil, stateIdle, Fault{}
	if a.once {
		a.state = stateDone
		s.remove(a)
	}
}

func (s *Stepped) call(_ *Process, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	a := s.suspend(stateSuspended, action)
	name := "user"
	if a != nil {
		name = a.full
	}
	out := s.perform(a, action, effect)
	s.record(name, action, out, 0)
	if out.Err != nil && a != nil && a.fault.Kind == FaultHang {
		s.sleepAs(a, HangTimeout)
	}
	return out
}

// perform lets a call take effect, or go wrong.
func (s *Stepped) perform(a *Task, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if a == nil || a.fault.Kind == "" || !a.fault.Applies(action) {
		return effect()
	}
	s.changes++ // whoever only looks from time to time may have seen the fault, and must look again
	return a.fault.apply(action, effect)
}

func (s *Stepped) sleep(_ *Process, d time.Duration) {
	a := s.current
	if a == nil {
		panic("sim: Sleep outside a strand")
	}
	s.sleepAs(a, d)
}

func (s *Stepped) sleepAs(a *Task, d time.Duration) {
	a.wakeAt = s.Now().Add(d)
	action := trace.Action{Kind: trace.KindSleep, Verb: "woke", Object: d.String()}
	s.suspend(stateSleeping, action)
	s.record(a.full, action, trace.Outcome{}, 0)
}

func (s *Stepped) wait(c *Process, on *Signal, what string, limit time.Duration, cond func() bool) bool {
	a := s.current
	if a == nil {
		panic("sim: Component.Wait outside a strand")
	}
	if !cond() {
		a.cond, a.wakeAt = cond, time.Time{}
		if a.signal, a.signaled = on, false; on != nil {
			on.process, on.waiting = c, append(on.waiting, a)
			defer func() {
				on.waiting = removeFirst(on.waiting, a)
				a.signal = nil
			}()
		}
		if limit > 0 {
			a.wakeAt = s.Now().Add(limit)
		}
		s.suspend(stateWaiting, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what})
	}
	holds := cond()
	s.record(a.full, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}, outcomeOfWait(holds), 0)
	return holds
}

// broadcast has those who wait on a signal asked again.
func (s *Stepped) broadcast(on *Signal) {
	for _, a := range on.waiting {
		a.signaled = true
	}
	s.touch(on.process)
}

func (s *Stepped) recordPanic(p Panic) { s.panics = append(s.panics, p) }

// Panics are the panics that strands recovered from.
func (s *Stepped) Panics() []Panic { return s.panics }

// waitExternal suspends a user's strand until cond, which may be about anything in the world, holds.
func (s *Stepped) waitExternal(what string, cond func() bool) {
	a := s.current
	action := trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}
	a.cond, a.wakeAt = cond, time.Time{}
	s.worldWaiters = append(s.worldWaiters, a)
	s.suspend(stateWaiting, action)
	s.worldWaiters = slices.DeleteFunc(s.worldWaiters, func(b *Task) bool { return a == b })
	s.record(a.full, action, trace.Outcome{}, 0)
}

func outcomeOfWait(holds bool) trace.Outcome {
	if holds {
		return trace.Outcome{}
	}
	return trace.Outcome{Detail: "timed out"}
}

// suspend gives up the turn of the strand that runs, and returns it when its turn has come. Outside a strand it does
// nothing and returns nil.
func (s *Stepped) suspend(as state, action trace.Action) *Task {
	a := s.current
	if a == nil {
		if s.closed {
			panic(unwound{})
		}
		return nil
	}
	if a.inline {
		panic(fmt.Sprintf("sim: %s may not leave its component, but wants to %s", a.full, action))
	}
	a.state, a.pendingCall = as, action
	a.co.suspend()
	return a
}

func (s *Stepped) arm(t *Timer) {
	i := slices.Index(s.timers, t)
	switch {
	case t.armed && i < 0:
		s.timers = append(s.timers, t)
	case !t.armed && i >= 0:
		s.timers = slices.Delete(s.timers, i, i+1)
	}
	s.touch(t.process)
}

func (s *Stepped) wake(c *Process) { s.touch(c) }

func (s *Stepped) wakeTask(a *Task) { s.touch(a.process) }

func (s *Stepped) recordEvent(name string) {
	s.changes++
	verb, object, _ := strings.Cut(name, " ")
	s.record("world", trace.Action{Kind: trace.KindEvent, Verb: verb, Object: object}, trace.Outcome{}, 0)
}

func (s *Stepped) record(actor string, action trace.Action, out trace.Outcome, took time.Duration) {
	if out.After != nil || action.Kind == trace.KindDriver && !out.Read {
		s.changes++
	}
	s.log.Append(trace.Record{
		At: s.since(), Task: actor, Action: action, Outcome: out, Took: took, HostStep: s.steps - s.strategyStart,
	})
}

func (s *Stepped) currentTask(c *Process) string {
	if s.current != nil {
		return s.current.full
	}
	return c.name
}

// externalCaller is the caller of code that is of no component.
type externalCaller struct{ engine }

func (o externalCaller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return o.call(nil, action, effect)
}
