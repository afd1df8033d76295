package sim

import (
	"context"

	"github.com/volsim/volsim/sim/trace"
)

// A ContextCaller is a Caller for code with goroutines of its own. It observes the context of a
// request, so that a cancelled request need not wait until it is scheduled. The events of a watch
// pass through it, too: each is an action of trace.KindDeliver before the watcher sees it.
type ContextCaller interface {
	Caller
	// CallContext is Call, except that it returns at once, without effect and with the error of
	// ctx, if ctx ends before the action is scheduled.
	CallContext(ctx context.Context, action trace.Action, effect func() trace.Outcome) trace.Outcome
}
