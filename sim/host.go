package sim

import (
	"context"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Host moves the actors of a world: *Live or *Stepped.
type Host interface {
	// Process adds a component.
	Process(name string) *Process
	// ExternalCaller is the caller for code that is of no component: a user, a test.
	ExternalCaller() Caller
	// Log is the record of what happened.
	Log() *trace.Log
	// Now is the world's time.
	Now() time.Time
	// Start lets the actors move.
	Start()
	// Wait returns when cond holds, having let the world move meanwhile. what names what is waited for, in the error
	// that says why it cannot come any more.
	Wait(ctx context.Context, what string, cond func() bool) error
	// Close unwinds every strand and returns when nothing of the world runs any more.
	Close()
}

var (
	_ Host = (*Live)(nil)
	_ Host = (*Stepped)(nil)
)
