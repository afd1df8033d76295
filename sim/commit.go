package sim

import (
	"context"

	"github.com/volsim/volsim/sim/trace"
)

// A Commit is the point of a write at which it changes what other tasks can see. What the write
// does before (decode, validate, merge) runs concurrently with other calls. A *Commit belongs to
// one call; nil is the Commit of a host that runs one call at a time.
type Commit struct {
	live    *Live
	process *Process // that writes; nil: none
	made    bool     // a change; the order lock is held until the call is in the log
}

// Try makes a change, and reports whether change did. On a live host no other write changes
// anything from a successful Try until its call is in the log. If change returns false, the write
// may prepare another one and try again.
func (c *Commit) Try(change func() bool) bool {
	if c == nil || c.made {
		return change()
	}
	return c.first(change)
}

// first makes the first change of the call.
func (c *Commit) first(change func() bool) bool {
	c.live.order.Lock()
	c.live.writer.Store(c.process)
	defer func() {
		if !c.made {
			c.unlock()
		}
	}()
	c.made = change()
	return c.made
}

// end is called when the call is in the log.
func (c *Commit) end() {
	if c != nil && c.made {
		c.unlock()
	}
}

func (c *Commit) unlock() {
	c.live.writer.Store(nil)
	c.live.order.Unlock()
}

// An effect is what a call does: one of the two functions.
type effect struct {
	run    func() trace.Outcome
	commit func(*Commit) trace.Outcome // of CallContext
}

func (e effect) do(c *Commit) trace.Outcome {
	if e.commit != nil {
		return e.commit(c)
	}
	return e.run()
}

// CallContext makes a call under a context, through ContextCaller.CallContext if caller implements
// it. Other callers ignore the context; effect must observe it. A write makes its changes through
// the Commit. A write by Caller.Call has no Commit: the live host serializes it from its beginning.
func CallContext(ctx context.Context, caller Caller, action trace.Action,
	run func(*Commit) trace.Outcome,
) trace.Outcome {
	switch c := caller.(type) {
	case *Process:
		return c.host.call(c, action, effect{commit: run})
	case externalCaller:
		return c.perform(action, effect{commit: run})
	case directCaller:
		return run(nil)
	case ContextCaller:
		return c.CallContext(ctx, action, func() trace.Outcome { return run(nil) })
	}
	return caller.Call(action, func() trace.Outcome { return run(nil) })
}
