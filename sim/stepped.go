package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/trace"
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
// was moved longest ago, then who was registered first. Time moves only when nothing else can. Its methods must be called
// from one goroutine.
type Stepped struct {
	chooser Chooser
	log     *trace.Log
	now     time.Time
	max     int

	actors  []*Actor
	comps   []*Component
	timers  []*Timer // armed ones, in no order
	current *Actor
	free    []*coroutine
	enabled []*Actor // scratch of Step
	nextID  int
	steps   int
	choices int
	changes int // how often something outside the components changed: what polls look for
	closed  bool
}

// SteppedConfig is what NewStepped must be told. The zero value takes the ordinary course.
type SteppedConfig struct {
	Chooser  Chooser    // nil: FIFO
	Log      *trace.Log // nil: one of its own
	StepsMax int        // 0: StepsMax
}

// NewStepped makes a stepped host. Close it, or its suspended strands stay in memory.
func NewStepped(cfg SteppedConfig) *Stepped {
	s := &Stepped{chooser: cfg.Chooser, log: cfg.Log, now: Epoch, max: cfg.StepsMax}
	if s.chooser == nil {
		s.chooser = FIFO{}
	}
	if s.log == nil {
		s.log = &trace.Log{}
	}
	if s.max == 0 {
		s.max = StepsMax
	}
	return s
}

// Component adds a component.
func (s *Stepped) Component(name string) *Component {
	c := &Component{name: name, host: s, dirty: true}
	s.comps = append(s.comps, c)
	return c
}

// Outside is the caller for code that is not of a component: from the goroutine that moves the host it acts at once,
// from within a strand it is suspended as that strand.
func (s *Stepped) Outside() Caller { return outside{s} }

// Log is the record of what happened.
func (s *Stepped) Log() *trace.Log { return s.log }

// Now is the virtual time.
func (s *Stepped) Now() time.Time { return s.now }

// Context is the context strands run under; it is never cancelled.
func (s *Stepped) Context() context.Context { return context.Background() }

// Start does nothing: a stepped world moves when it is stepped.
func (s *Stepped) Start() {}

// Steps returns how many steps were made.
func (s *Stepped) Steps() int { return s.steps }

// Choices returns how often the chooser was asked.
func (s *Stepped) Choices() int { return s.choices }

// Step lets one thing happen. It returns false when nothing is left to happen: only background timers are, and each of
// them has fired since something last changed.
func (s *Stepped) Step() bool {
	enabled := s.ready()
	if len(enabled) == 0 {
		if !s.advance() {
			return false
		}
		enabled = s.ready()
	}
	i := 0
	if len(enabled) > 1 {
		s.order(enabled)
		i = s.chooser.Choose(len(enabled))
		s.choices++
	}
	s.steps++
	s.move(enabled[i])
	return true
}

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
		s.waitOutside(what, cond)
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
	for _, a := range s.actors {
		if a.state == stateWaiting && !a.cond() {
			names = append(names, a.full+" waits for "+a.pending.Object)
		}
	}
	slices.Sort(names)
	return names
}

// Close unwinds every strand where it stands. The host is of no use afterwards.
func (s *Stepped) Close() {
	s.closed = true
	for _, a := range s.actors {
		if a.co != nil {
			s.current = a
			a.co.stop()
		}
	}
	s.current = nil
	for _, co := range s.free {
		co.stop()
	}
	s.actors, s.free = nil, nil
}

// ready lists the actors that could be moved now, in no order.
func (s *Stepped) ready() []*Actor {
	enabled := s.enabled[:0]
	for _, a := range s.actors {
		switch {
		case a.state == stateIdle && a.c.dirty:
			a.isReady = a.ready()
		case a.state == stateWaiting && (a.everywhere || a.c.dirty):
			a.isReady = a.cond()
		}
		if s.movable(a) {
			enabled = append(enabled, a)
		}
	}
	for _, c := range s.comps {
		c.dirty = false
	}
	s.enabled = enabled
	return enabled
}

func (s *Stepped) movable(a *Actor) bool {
	switch a.state {
	case stateIdle:
		return a.isReady
	case stateWaiting:
		return a.isReady || !a.wakeAt.IsZero() && !s.now.Before(a.wakeAt)
	case stateSuspended:
		return true
	case stateSleeping:
		return !s.now.Before(a.wakeAt)
	default:
		return false
	}
}

func (s *Stepped) order(enabled []*Actor) {
	slices.SortFunc(enabled, func(a, b *Actor) int {
		if c := int(a.rank()) - int(b.rank()); c != 0 {
			return c
		}
		if c := a.lastRun - b.lastRun; c != 0 {
			return c
		}
		return a.id - b.id
	})
}

// rank is the actor's class at this moment: a worker in the middle of its work is in flight.
func (a *Actor) rank() class {
	if a.class == classWorker && a.state != stateIdle {
		return classFlight
	}
	return a.class
}

// advance moves the clock to the next sleeper or timer. A background timer that has fired since something last changed is
// passed over: it would find what it found then. It returns false where there is nothing else.
func (s *Stepped) advance() bool {
	var next earliest
	for _, t := range s.timers {
		if !t.background || t.polled < s.changes {
			next.consider(t.deadline)
		}
	}
	for _, a := range s.actors {
		if a.state == stateSleeping || a.state == stateWaiting && !a.wakeAt.IsZero() {
			next.consider(a.wakeAt)
		}
	}
	if next.found {
		s.SetTime(next.at)
	}
	return next.found
}

// earliest is the first of some times.
type earliest struct {
	at    time.Time
	found bool
}

func (e *earliest) consider(t time.Time) {
	if !e.found || t.Before(e.at) {
		e.at, e.found = t, true
	}
}

// SetTime moves the clock forward to t: timers and sleepers up to then become ready. It never moves it back.
func (s *Stepped) SetTime(t time.Time) {
	if t.After(s.now) {
		s.now = t
	}
	for _, t := range s.timers {
		t.c.dirty = true
	}
}

func (s *Stepped) move(a *Actor) {
	a.lastRun = s.steps
	a.c.dirty = true
	s.current = a
	switch {
	case a.plain:
		if a.timer != nil {
			a.timer.polled = s.changes
			s.note(a.full, trace.Action{Kind: trace.KindTimer, Verb: "fire"}, trace.Outcome{}, 0)
		}
		a.step(s.Context())
	case a.state == stateIdle:
		a.co = s.coroutine()
		a.co.start(func() { a.step(s.Context()) })
		s.settle(a)
	default:
		a.co.next()
		s.settle(a)
	}
	s.current = nil
}

// settle puts an actor whose work is done back to idle, or lets it go.
func (s *Stepped) settle(a *Actor) {
	if !a.co.idle {
		return
	}
	s.free = append(s.free, a.co)
	a.co, a.state = nil, stateIdle
	if a.once {
		a.state = stateDone
		s.remove(a)
	}
}

func (s *Stepped) coroutine() *coroutine {
	if n := len(s.free); n > 0 {
		co := s.free[n-1]
		s.free = s.free[:n-1]
		return co
	}
	return newCoroutine()
}

func (s *Stepped) remove(a *Actor) {
	if i := slices.Index(s.actors, a); i >= 0 {
		s.actors = slices.Delete(s.actors, i, i+1)
	}
}

func (s *Stepped) add(a *Actor) {
	s.nextID++
	a.id = s.nextID
	a.c.dirty = true
	s.actors = append(s.actors, a)
}

func (s *Stepped) call(_ *Component, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	a := s.suspend(stateSuspended, action)
	name := "user"
	if a != nil {
		name = a.full
	}
	out := effect()
	s.note(name, action, out, 0)
	return out
}

func (s *Stepped) sleep(_ *Component, d time.Duration) {
	a := s.current
	if a == nil {
		panic("sim: Sleep outside a strand")
	}
	a.wakeAt = s.now.Add(d)
	action := trace.Action{Kind: trace.KindSleep, Verb: "woke", Object: d.String()}
	s.suspend(stateSleeping, action)
	s.note(a.full, action, trace.Outcome{}, 0)
}

func (s *Stepped) wait(_ *Component, what string, limit time.Duration, cond func() bool) bool {
	a := s.current
	if a == nil {
		panic("sim: Component.Wait outside a strand")
	}
	if !cond() {
		a.cond, a.wakeAt, a.everywhere = cond, time.Time{}, false
		if limit > 0 {
			a.wakeAt = s.now.Add(limit)
		}
		s.suspend(stateWaiting, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what})
	}
	holds := cond()
	s.note(a.full, trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}, outcomeOfWait(holds), 0)
	return holds
}

// waitOutside suspends a user's strand until cond, which may be about anything in the world, holds.
func (s *Stepped) waitOutside(what string, cond func() bool) {
	a := s.current
	action := trace.Action{Kind: trace.KindWait, Verb: "until", Object: what}
	a.cond, a.wakeAt, a.everywhere = cond, time.Time{}, true
	s.suspend(stateWaiting, action)
	s.note(a.full, action, trace.Outcome{}, 0)
}

func outcomeOfWait(holds bool) trace.Outcome {
	if holds {
		return trace.Outcome{}
	}
	return trace.Outcome{Detail: "timed out"}
}

// suspend gives up the turn of the strand that runs, and returns it when its turn has come. Outside a strand it does
// nothing and returns nil.
func (s *Stepped) suspend(as state, action trace.Action) *Actor {
	a := s.current
	if a == nil {
		if s.closed {
			panic(unwound{})
		}
		return nil
	}
	if a.plain {
		panic(fmt.Sprintf("sim: %s may not leave its component, but wants to %s", a.full, action))
	}
	a.state, a.pending = as, action
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
	t.c.dirty = true
}

func (s *Stepped) wake(c *Component) { c.dirty = true }

func (s *Stepped) note(actor string, action trace.Action, out trace.Outcome, took time.Duration) {
	if out.After != nil || action.Kind == trace.KindDriver {
		s.changes++
	}
	s.log.Append(trace.Record{At: s.now.Sub(Epoch), Actor: actor, Action: action, Outcome: out, Took: took})
}

func (s *Stepped) actor(c *Component) string {
	if s.current != nil {
		return s.current.full
	}
	return c.name
}

// Enabled names the actors that could be moved now, in the ordinary order; each with what it is about to do, if it is in
// the middle of its work.
func (s *Stepped) Enabled() []string {
	scratch := s.enabled
	s.enabled = nil // a chooser may ask, while a step holds its own list
	enabled := s.ready()
	s.enabled = scratch
	s.order(enabled)
	names := make([]string, len(enabled))
	for i, a := range enabled {
		names[i] = a.full
		if a.state != stateIdle {
			names[i] += ": " + a.pending.String()
		}
	}
	return names
}

// Move makes one step with the named actor ("component/strand"), whatever the chooser would say. It fails when there is
// nothing for it to do now.
func (s *Stepped) Move(actor string) error {
	for _, a := range s.ready() {
		if a.full == actor {
			s.steps++
			s.move(a)
			return nil
		}
	}
	return fmt.Errorf("move %s: it has nothing to do; what could happen: %s", actor, strings.Join(s.Enabled(), "; "))
}

// outside is the caller of code that is of no component.
type outside struct{ engine }

func (o outside) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return o.call(nil, action, effect)
}
