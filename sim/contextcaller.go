package sim

import (
	"context"

	"github.com/volsim/volsim/sim/trace"
)

// ContextCaller is a Caller for code that has goroutines of its own. It knows what a request's context says, so that whoever gives
// up need not wait for his turn; and what a watch has to tell goes through it too: each event is an action of
// trace.KindDeliver, before the watcher sees it.
type ContextCaller interface {
	Caller
	// CallContext is Call, but when ctx ends before the action's turn has come it returns at once, without effect, with ctx's
	// error.
	CallContext(ctx context.Context, action trace.Action, effect func() trace.Outcome) trace.Outcome
}

// CallContext makes a call under a context: through Gate.Pass where caller is a Gate. Other callers know of no context; effect
// has to look.
func CallContext(ctx context.Context, caller Caller, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if g, ok := caller.(ContextCaller); ok {
		return g.CallContext(ctx, action, effect)
	}
	return caller.Call(action, effect)
}
