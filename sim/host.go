package sim

import (
	"context"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// A Host runs the tasks of a world: *Live or *Stepped.
type Host interface {
	// Process adds a process.
	Process(name string) *Process
	// ExternalCaller returns the caller for code outside all processes: a user, a test. After Close
	// its writes to the API server fail without effect. Reads return the last state.
	ExternalCaller() Caller
	// Log returns the trace.
	Log() *trace.Log
	// Now returns the time of the world.
	Now() time.Time
	// Start starts the tasks.
	Start()
	// Wait returns when cond holds, and lets the world run meanwhile. what names the condition in
	// the error, which says why it can no longer become true.
	Wait(ctx context.Context, what string, cond func() bool) error
	// Crash ends a process now, as if it had been killed. Calls that have taken effect are not undone.
	// The process is unusable afterwards; a new one may have its name.
	Crash(p *Process)
	// AddEventSource adds a function that lists the events that can be injected at the moment. The
	// order must be deterministic. verb is the first word of the names that the caller wants, "" for
	// all; other events may be among the result and are ignored.
	AddEventSource(events func(verb string) []Event)
	// Events returns the names of the events that can be injected now.
	Events() []string
	// Inject applies the named event now, and records it. It reports whether the event was possible.
	Inject(name string) bool
	// Close unwinds every task and returns when nothing of the world runs any more.
	Close()
}

var (
	_ Host = (*Live)(nil)
	_ Host = (*Stepped)(nil)
)
