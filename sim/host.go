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
	// Close unwinds every task and returns when nothing of the world runs any more.
	Close()
}

var (
	_ Host = (*Live)(nil)
	_ Host = (*Stepped)(nil)
)
