package sim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A Caller suspends the calling code for the duration of one external effect. A client of the API
// server or of a driver is built on a Caller, so that each request is a suspension point.
type Caller interface {
	// Call runs effect, records it under the action's name, and returns the outcome that the task
	// sees. This is the effect's own outcome, unless a fault is injected before or after the
	// effect. The stepped host may run any other task before effect; effect itself is atomic there.
	// Call does not return if the host is closed or the process crashes meanwhile: it unwinds the
	// task.
	Call(action trace.Action, effect func() trace.Outcome) trace.Outcome
	// Now returns the time of the world.
	Now() time.Time
}

// engine is what a host does for its processes.
type engine interface {
	taskName(process, task string) string
	add(t *Task)
	setUp(p *Process, f func() error) error
	call(p *Process, action trace.Action, e effect) trace.Outcome
	sleep(p *Process, d time.Duration)
	wait(p *Process, signal *Signal, what string, limit time.Duration, cond func() bool) bool
	broadcast(s *Signal)
	Log() *trace.Log
	recordPanic(p Panic)
	arm(t *Timer)
	wake(p *Process)
	wakeTask(t *Task)
	record(task string, action trace.Action, out trace.Outcome, took time.Duration)
	currentTask(p *Process) string
	check(p *Process, action trace.Action) error
	access(a Access)
	observed() bool
	isClosed() bool
	Now() time.Time
	Context() context.Context
}

// A Process is one process of the world. Its methods, except Wake, are for its own tasks and for the
// code that assembles it: before the host starts, or in SetUp.
type Process struct {
	name string
	host engine

	mu          sync.Mutex     // the monitor (live): held by the task that runs
	runningTask string         // the task that holds the monitor (live), for the record
	runner      atomic.Uintptr // the goroutine that holds the monitor (live); 0: none

	sleepersMu sync.Mutex
	sleepers   []*sleeper // live: replaced, never changed, guarded by sleepersMu; the tasks that may wait to be ready

	ctx       context.Context //nolint:containedctx // live: of the tasks; it ends with the process
	cancel    context.CancelFunc
	running   sync.WaitGroup // live: the goroutines of the tasks
	settingUp bool           // live: guarded by Live.mu; see SetUp
	onCrash   []func()       // see OnCrash

	gates []func() bool // all must have held once before a worker is ready

	handlersEnqueue bool          // see HandlersEnqueue
	remembers       bool          // see Remembers
	reused          *reuse.Memory // nil: none; see ReuseMemory
	memory          func(StateWriter)
	queues          []queueState

	// in order of registration
	tasks   []*Task // in order of registration
	touched bool    // the readiness of its tasks must be checked again
	dead    bool    // stepped: it has crashed
}

var _ Caller = (*Process)(nil)

// Name returns the name of the process, such as "pvcontroller" or "kubelet(node-1)".
func (p *Process) Name() string { return p.name }

// SetUp runs f, which registers the tasks of the process, and returns its error. None of the tasks
// runs before f has returned.
func (p *Process) SetUp(f func() error) error { return p.host.setUp(p, f) }

// OnCrash registers f, which is called when the process has crashed and none of its tasks runs any
// more. f must not suspend.
func (p *Process) OnCrash(f func()) { p.onCrash = append(p.onCrash, f) }

// crashed calls the functions of OnCrash.
func (p *Process) crashed() {
	all := p.onCrash
	p.onCrash = nil
	for _, f := range all {
		f()
	}
}

// Now returns the time of the world.
func (p *Process) Now() time.Time { return p.host.Now() }

// Call suspends the task, runs effect, resumes and records it. See Caller.
func (p *Process) Call(action trace.Action, run func() trace.Outcome) trace.Outcome {
	return p.host.call(p, action, effect{run: run})
}

// Sleep suspends the task for d.
func (p *Process) Sleep(d time.Duration) { p.host.sleep(p, d) }

// Wait suspends the task until cond holds or limit has passed (0: no limit), and reports whether
// cond holds. cond depends only on the state of the process. what names the condition in the trace.
func (p *Process) Wait(what string, limit time.Duration, cond func() bool) bool {
	return p.host.wait(p, nil, what, limit, cond)
}

// WaitOn is Wait for an announced condition, and reports whether it holds. cond is checked when the
// wait begins, when the signal is broadcast and when limit has passed, and at no other time.
// Thousands of tasks can therefore wait without being checked each time the process runs.
func (p *Process) WaitOn(s *Signal, what string, limit time.Duration, cond func() bool) bool {
	return p.host.wait(p, s, what, limit, cond)
}

// Wake notifies the host that something outside the process changed and may have made one of its
// tasks ready. It may be called from anywhere, at any time.
func (p *Process) Wake() { p.host.wake(p) }

// Record records an action that happened inside the process, without suspending the task.
func (p *Process) Record(action trace.Action, out trace.Outcome) {
	p.host.record(p.host.currentTask(p), action, out, 0)
}

// RecordRead records a read from a cache of the process, if its log keeps reads. The result of read
// needs no Task and no Step.
func (p *Process) RecordRead(read func() trace.Read) {
	log := p.host.Log()
	if !log.KeepReads {
		return
	}
	r := read()
	r.Task = p.host.currentTask(p)
	log.AppendRead(r)
}

// RecordPanic records a panic from which a task, which continues, has recovered. A stepped host
// keeps it for Panics. stack is the stack at the panic.
func (p *Process) RecordPanic(value any, stack string) {
	task := p.host.currentTask(p)
	action := trace.Action{Kind: trace.KindWork, Verb: "panic", Object: task}
	p.host.record(task, action, trace.Outcome{Err: fmt.Errorf("panic: %v", value)}, 0)
	p.host.recordPanic(Panic{Task: task, Value: value, Stack: stack})
}

// GateWorkers keeps the workers of the process from starting until cond has held: upstream's "wait
// for caches to sync".
func (p *Process) GateWorkers(cond func() bool) {
	if p.gates == nil {
		p.gates = make([]func() bool, 0, gatesMin)
	}
	p.gates = append(p.gates, cond)
}

// gatesMin is the capacity of the gates of a process with its first one: a controller has several
// caches.
const gatesMin = 8

func (p *Process) gatesOpen() bool {
	for len(p.gates) > 0 && p.gates[len(p.gates)-1]() {
		p.gates = p.gates[:len(p.gates)-1]
	}
	return len(p.gates) == 0
}

// Worker adds a task that takes up work whenever ready holds, once the gates are open. step may
// suspend.
func (p *Process) Worker(name string, ready func() bool, step func(ctx context.Context)) {
	p.add(p.newWorker(name, ready, step))
}

// newWorker returns the task of Worker.
func (p *Process) newWorker(name string, ready func() bool, step func(ctx context.Context)) *Task {
	t := p.newTask()
	t.name, t.class, t.ready, t.gated, t.step = name, classWorker, ready, true, step
	return t
}

// Delivery adds a task that takes in events from outside, one at a time. step must not suspend.
func (p *Process) Delivery(name string, ready func() bool, step func()) {
	p.add(&Task{name: name, class: classDelivery, ready: ready, inline: true, step: func(context.Context) { step() }})
}

// A lagging delivery takes in events, as Process.DeliverFrom says.
type lagging interface {
	Ready() bool
	Late() bool
	Deliver()
}

// DeliverFrom adds a Delivery that may lag. Ready reports whether there is an event, and Deliver takes
// one in; it must not suspend. While Late holds, a stepped host runs the task last in the default order.
// The methods are called in the process's monitor.
func (p *Process) DeliverFrom(name string, source interface {
	Ready() bool
	Late() bool
	Deliver()
},
) *Task {
	t := p.newTask()
	t.name, t.class, t.source, t.inline = name, classDelivery, source, true
	p.add(t)
	return t
}

// Wake is Process.Wake for this task alone. It may be called from anywhere, at any time.
func (t *Task) Wake() { t.process.host.wakeTask(t) }

// Spawn starts a task that runs once and ends.
func (p *Process) Spawn(name string, run func(ctx context.Context)) {
	t := p.newTask()
	t.name, t.class, t.ready, t.step, t.once = name, classInFlight, always, run, true
	p.add(t)
}

// User adds a task that runs once and stands for a person or a program outside the control plane.
// It runs last in the default order.
func (p *Process) User(name string, run func(ctx context.Context)) {
	p.add(&Task{name: name, class: classUser, ready: always, step: run, once: true})
}

func always() bool { return true }

func (p *Process) add(t *Task) {
	t.process = p
	t.full = p.host.taskName(p.name, t.name)
	p.host.add(t)
}
