package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Caller lets code leave the place where it runs, for the time of one effect on the outside world. A client of the API
// server or of a driver is built over a Caller, and is thereby suspended at each request.
type Caller interface {
	// Call runs effect, records it under the action's name, and returns the outcome that the strand is to believe. That
	// is effect's own, but where somebody between makes the call fail: without effect, or after it. The stepped host may
	// run anything else of the world before effect, which itself is atomic there. Call does not return when the host is
	// closed or the component crashed meanwhile: it unwinds the strand.
	Call(action trace.Action, effect func() trace.Outcome) trace.Outcome
	// Now is the world's time.
	Now() time.Time
}

// engine is what a host does for its components.
type engine interface {
	add(a *Actor)
	call(c *Component, action trace.Action, effect func() trace.Outcome) trace.Outcome
	sleep(c *Component, d time.Duration)
	wait(c *Component, on *Signal, what string, limit time.Duration, cond func() bool) bool
	give(s *Signal)
	panicked(p Panic)
	arm(t *Timer)
	wake(c *Component)
	rouse(a *Actor)
	note(actor string, action trace.Action, out trace.Outcome, took time.Duration)
	actor(c *Component) string
	Now() time.Time
	Context() context.Context
}

// Component is one process of the world. Its methods, Wake excepted, are for its own strands and, before the host
// starts, for whoever assembles it.
type Component struct {
	name string
	host engine

	mu     sync.Mutex // the monitor (live): held by the strand that runs
	strand string     // who holds the monitor (live), for the record

	sleepersMu sync.Mutex
	sleepers   []*sleeper // live: replaced, never changed, guarded by sleepersMu; the strands that may wait to be ready

	gate []func() bool // all must hold once before a worker is ready

	// The stepped host's.
	actors  []*Actor // in order of registration
	touched bool     // they must be asked again whether they are ready
}

var _ Caller = (*Component)(nil)

// Name is the component's name, such as "pvcontroller" or "kubelet(node-1)".
func (c *Component) Name() string { return c.name }

// Now is the world's time.
func (c *Component) Now() time.Time { return c.host.Now() }

// Call leaves the component, runs effect, comes back and records it. See Caller.
func (c *Component) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return c.host.call(c, action, effect)
}

// Sleep leaves the component for d.
func (c *Component) Sleep(d time.Duration) { c.host.sleep(c, d) }

// Wait leaves the component until cond, which is about the component's own state, holds, or limit has passed (0: no
// limit). It returns whether cond holds. what names what is waited for.
func (c *Component) Wait(what string, limit time.Duration, cond func() bool) bool {
	return c.host.wait(c, nil, what, limit, cond)
}

// WaitOn is Wait for what is announced: cond is asked when the wait begins, when the signal is given, and when limit has
// passed, and not otherwise. So thousands of strands may wait without being asked at each turn of the component.
func (c *Component) WaitOn(s *Signal, what string, limit time.Duration, cond func() bool) bool {
	return c.host.wait(c, s, what, limit, cond)
}

// Wake tells the host that something outside the component changed that may have made one of its actors ready. It may
// be called from anywhere, at any time.
func (c *Component) Wake() { c.host.wake(c) }

// Note records something that happened inside the component, without leaving it.
func (c *Component) Note(action trace.Action, out trace.Outcome) {
	c.host.note(c.host.actor(c), action, out, 0)
}

// NotePanic tells that a strand, which goes on, recovered from a panic: the record has it, and a stepped host keeps it for
// Panics. stack is where it was.
func (c *Component) NotePanic(value any, stack string) {
	actor := c.host.actor(c)
	c.host.note(actor, trace.Action{Kind: trace.KindWork, Verb: "panic", Object: actor}, trace.Outcome{Err: fmt.Errorf("panic: %v", value)}, 0)
	c.host.panicked(Panic{Actor: actor, Value: value, Stack: stack})
}

// Gate keeps the component's workers from starting until cond has held: upstream's "wait for caches to sync".
func (c *Component) Gate(cond func() bool) { c.gate = append(c.gate, cond) }

func (c *Component) open() bool {
	for len(c.gate) > 0 && c.gate[len(c.gate)-1]() {
		c.gate = c.gate[:len(c.gate)-1]
	}
	return len(c.gate) == 0
}

// Worker adds a strand that takes up work whenever ready says so, once the gates are open; step may leave the component.
func (c *Component) Worker(name string, ready func() bool, step func(ctx context.Context)) {
	gated := func() bool { return c.open() && ready() }
	c.add(&Actor{name: name, class: classWorker, ready: gated, step: step})
}

// Delivery adds a strand that takes in what arrives from outside, one event at a time; step must not leave the component.
func (c *Component) Delivery(name string, ready func() bool, step func()) {
	c.LateDelivery(name, ready, nil, step)
}

// LateDelivery adds a Delivery that may lag: as long as late says so, a stepped host moves it last in the ordinary course.
// wake is Wake for this strand alone: it tells the host that something has arrived. It may be called from anywhere, at any
// time.
func (c *Component) LateDelivery(name string, ready, late func() bool, step func()) (wake func()) {
	a := &Actor{name: name, class: classDelivery, ready: ready, step: func(context.Context) { step() }, plain: true, late: late}
	c.add(a)
	return func() { c.host.rouse(a) }
}

// Spawn starts a strand that runs once and is gone.
func (c *Component) Spawn(name string, run func(ctx context.Context)) {
	c.add(&Actor{name: name, class: classFlight, ready: always, step: run, once: true})
}

// User adds a strand that runs once and stands for a person or a program outside the control plane: it is moved last.
func (c *Component) User(name string, run func(ctx context.Context)) {
	c.add(&Actor{name: name, class: classUser, ready: always, step: run, once: true})
}

func always() bool { return true }

func (c *Component) add(a *Actor) {
	a.c = c
	a.full = c.name
	if a.name != "" {
		a.full += "/" + a.name
	}
	c.host.add(a)
}
