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
	add(a *Task)
	call(c *Process, action trace.Action, effect func() trace.Outcome) trace.Outcome
	sleep(c *Process, d time.Duration)
	wait(c *Process, on *Signal, what string, limit time.Duration, cond func() bool) bool
	broadcast(s *Signal)
	recordPanic(p Panic)
	arm(t *Timer)
	wake(c *Process)
	wakeTask(a *Task)
	record(actor string, action trace.Action, out trace.Outcome, took time.Duration)
	currentTask(c *Process) string
	Now() time.Time
	Context() context.Context
}

// Process is one process of the world. Its methods, Wake excepted, are for its own strands and, before the host
// starts, for whoever assembles it.
type Process struct {
	name string
	host engine

	mu          sync.Mutex // the monitor (live): held by the strand that runs
	runningTask string     // who holds the monitor (live), for the record

	sleepersMu sync.Mutex
	sleepers   []*sleeper // live: replaced, never changed, guarded by sleepersMu; the strands that may wait to be ready

	gates []func() bool // all must hold once before a worker is ready

	// The stepped host's.
	tasks   []*Task // in order of registration
	touched bool    // they must be asked again whether they are ready
}

var _ Caller = (*Process)(nil)

// Name is the component's name, such as "pvcontroller" or "kubelet(node-1)".
func (c *Process) Name() string { return c.name }

// Now is the world's time.
func (c *Process) Now() time.Time { return c.host.Now() }

// Call leaves the component, runs effect, comes back and records it. See Caller.
func (c *Process) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return c.host.call(c, action, effect)
}

// Sleep leaves the component for d.
func (c *Process) Sleep(d time.Duration) { c.host.sleep(c, d) }

// Wait leaves the component until cond, which is about the component's own state, holds, or limit has passed (0: no
// limit). It returns whether cond holds. what names what is waited for.
func (c *Process) Wait(what string, limit time.Duration, cond func() bool) bool {
	return c.host.wait(c, nil, what, limit, cond)
}

// WaitOn is Wait for what is announced: cond is asked when the wait begins, when the signal is given, and when limit has
// passed, and not otherwise. So thousands of strands may wait without being asked at each turn of the component.
func (c *Process) WaitOn(s *Signal, what string, limit time.Duration, cond func() bool) bool {
	return c.host.wait(c, s, what, limit, cond)
}

// Wake tells the host that something outside the component changed that may have made one of its actors ready. It may
// be called from anywhere, at any time.
func (c *Process) Wake() { c.host.wake(c) }

// Record records something that happened inside the component, without leaving it.
func (c *Process) Record(action trace.Action, out trace.Outcome) {
	c.host.record(c.host.currentTask(c), action, out, 0)
}

// RecordPanic tells that a strand, which goes on, recovered from a panic: the record has it, and a stepped host keeps it for
// Panics. stack is where it was.
func (c *Process) RecordPanic(value any, stack string) {
	actor := c.host.currentTask(c)
	c.host.record(actor, trace.Action{Kind: trace.KindWork, Verb: "panic", Object: actor}, trace.Outcome{Err: fmt.Errorf("panic: %v", value)}, 0)
	c.host.recordPanic(Panic{Task: actor, Value: value, Stack: stack})
}

// GateWorkers keeps the component's workers from starting until cond has held: upstream's "wait for caches to sync".
func (c *Process) GateWorkers(cond func() bool) { c.gates = append(c.gates, cond) }

func (c *Process) gatesOpen() bool {
	for len(c.gates) > 0 && c.gates[len(c.gates)-1]() {
		c.gates = c.gates[:len(c.gates)-1]
	}
	return len(c.gates) == 0
}

// Worker adds a strand that takes up work whenever ready says so, once the gates are open; step may leave the component.
func (c *Process) Worker(name string, ready func() bool, step func(ctx context.Context)) {
	gated := func() bool { return c.gatesOpen() && ready() }
	c.add(&Task{name: name, class: classWorker, ready: gated, step: step})
}

// Delivery adds a strand that takes in what arrives from outside, one event at a time; step must not leave the component.
func (c *Process) Delivery(name string, ready func() bool, step func()) {
	c.LaggingDelivery(name, ready, nil, step)
}

// LaggingDelivery adds a Delivery that may lag: as long as late says so, a stepped host moves it last in the ordinary course.
// wake is Wake for this strand alone: it tells the host that something has arrived. It may be called from anywhere, at any
// time.
func (c *Process) LaggingDelivery(name string, ready, late func() bool, step func()) (wake func()) {
	a := &Task{name: name, class: classDelivery, ready: ready, step: func(context.Context) { step() }, inline: true, lagging: late}
	c.add(a)
	return func() { c.host.wakeTask(a) }
}

// Spawn starts a strand that runs once and is gone.
func (c *Process) Spawn(name string, run func(ctx context.Context)) {
	c.add(&Task{name: name, class: classInFlight, ready: always, step: run, once: true})
}

// User adds a strand that runs once and stands for a person or a program outside the control plane: it is moved last.
func (c *Process) User(name string, run func(ctx context.Context)) {
	c.add(&Task{name: name, class: classUser, ready: always, step: run, once: true})
}

func always() bool { return true }

func (c *Process) add(a *Task) {
	a.process = c
	a.full = c.name
	if a.name != "" {
		a.full += "/" + a.name
	}
	c.host.add(a)
}
