package sim

import (
	"context"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// class orders the tasks that can run in the default order; see Stepped.
type class uint8

const (
	classDelivery class = iota // applies an event to a cache
	classInFlight              // continues its work
	classWorker                // a worker with new work, or a timer
	classUser                  // a user script
	classLagging               // applies an event to a cache that lags; see Process.DeliverFrom
)

// state is the execution state of a task under the stepped host.
type state uint8

const (
	stateIdle      state = iota // between two pieces of work; ready() decides
	stateSuspended              // at a call, which can proceed at any time
	stateSleeping               // until wakeAt
	stateWaiting                // until cond holds or wakeAt has come
	stateDone                   // ended
)

// A Task is a unit of execution inside a process. Worker, Delivery, Spawn, User and NewTimer of a
// Process create tasks.
type Task struct {
	process *Process
	name    string // within the process
	full    string // "process/name"
	class   class
	source  lagging // nil: ready and step are used, or timer
	ready   func() bool
	gated   bool // a worker: not ready before the gates of the process are open
	step    func(ctx context.Context)
	begin   func() // step, as the function of a coroutine; nil: it has not run
	once    bool   // ends after one step
	inline  bool   // never suspends, so it needs no coroutine
	memory  string // the part of the process's memory that its steps use; "": all that has no name
	// beats, if not nil, reports whether a queue of heartbeats has a key. The writes of its worker are
	// not changes for polls; see QueueConfig.Heartbeat.
	beats func(key any) bool

	sleeper *sleeper // live

	// order of registration, the last tie-break
	id          int // order of registration, the last tie-break
	state       state
	isReady     bool // what ready or cond returned last
	woken       bool // its readiness must be checked again
	lastRun     int  // step at which it ran last
	co          *coroutine
	pendingCall trace.Action
	wakeAt      time.Time   // of a sleep; of a wait with a limit, else zero
	cond        func() bool // of a wait
	signal      *Signal     // of a wait that is checked only on a broadcast; nil: whenever its process is touched
	signaled    bool        // the signal was broadcast
	timer       *Timer      // nil except for timers
	slot        int         // index in Stepped.enabled, from 1; 0: not in it
	fault       Fault       // injected into the call that it makes
	goroutines  int         // see otherGoroutines; when its work began; 0: not counted
}

// fullName returns "process/task", or "process" for a task without a name.
func fullName(process, task string) string {
	if task == "" {
		return process
	}
	return process + "/" + task
}

// isIdleReady reports whether a task between two pieces of work has work.
func (t *Task) isIdleReady() bool {
	switch {
	case t.source != nil:
		return t.source.Ready()
	case t.timer != nil:
		return t.timer.due()
	case t.gated && !t.process.gatesOpen():
		return false
	}
	return t.ready()
}

// runStep does a piece of work.
func (t *Task) runStep(ctx context.Context) {
	switch {
	case t.source != nil:
		t.source.Deliver()
	case t.timer != nil:
		t.timer.run()
	default:
		t.step(ctx)
	}
}

// unwound is the panic that unwinds a task when the host closes or its process crashes.
type unwound struct{}

func (unwound) Error() string { return "sim: task unwound" }

// recoverUnwound stops an unwinding at the root of a task. Any other panic continues.
func recoverUnwound() {
	if r := recover(); r != nil {
		if !Unwinding(r) {
			panic(r)
		}
	}
}
