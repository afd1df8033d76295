package sim

import (
	"context"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// class orders what could happen next in the ordinary course of events; see Stepped.
type class uint8

const (
	classDelivery class = iota // an event reaches a cache
	classInFlight              // a strand in the middle of its work goes on
	classWorker                // a worker takes up work, a timer fires
	classUser                  // somebody outside does something
	classLagging               // an event reaches a cache that lags; see Component.LateDelivery
)

// state says where an actor of the stepped host stands.
type state uint8

const (
	stateIdle      state = iota // between two pieces of work; ready() decides
	stateSuspended              // at a call, which can go ahead any time
	stateSleeping               // until wakeAt
	stateWaiting                // until cond holds, or wakeAt has come
	stateDone                   // gone
)

// Task is a strand of one component. Components make them with Worker, Delivery, Spawn, User and NewTimer.
type Task struct {
	process *Process
	name    string // within the component
	full    string // "component/name"
	class   class
	ready   func() bool
	step    func(ctx context.Context)
	once    bool        // gone after one step
	inline  bool        // never leaves the component, so it needs no coroutine
	lagging func() bool // of a delivery: it lags, and is moved last; nil: never

	sleeper *sleeper // live

	// The stepped host's.
	id          int // order of registration, the last tie-break
	state       state
	isReady     bool // what ready or cond said when last asked
	lastRun     int  // step at which it was last moved
	co          *coroutine
	pendingCall trace.Action
	wakeAt      time.Time   // of a sleep; of a wait with a limit, else zero
	cond        func() bool // of a wait
	signal      *Signal     // of a wait that is asked only when told; nil: whenever its component is touched
	signaled    bool        // the signal was given
	timer       *Timer      // nil but for timers
	slot        int         // in the list of those that could be moved, from 1; 0: it is not in it
	fault       Fault       // what goes wrong with the call that it makes
}

// unwound is the panic that carries a strand out of its work when the host closes or its component crashes.
type unwound struct{}

func (unwound) Error() string { return "sim: strand unwound" }

// recoverUnwound stops an unwinding at the root of a strand, and nothing else.
func recoverUnwound() {
	if r := recover(); r != nil {
		if !Unwinding(r) {
			panic(r)
		}
	}
}
