package fake

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/sim/trace"
)

// HasGate reports whether the events of the watch pass a sim.ContextCaller. The caller should then
// send the events it has before it calls PassGate.
func (c *Cursor) HasGate() bool { return c != nil && c.gate != nil }

// PassGate waits until an event returned by Next may be delivered, and reports whether it may.
// Without a sim.ContextCaller this is at once. The result is false if the watch is over: ctx has
// ended, or the gate is closed.
//
// Initial events that end with a bookmark pass the gate together, as one action LIST, before the
// bookmark: they are not a complete state before that.
func (c *Cursor) PassGate(ctx context.Context, e watch.Event) bool {
	switch {
	case c.gate == nil:
		return true
	case c.bookmark > 0:
		c.initial++
		return true
	}
	obj := e.Object.(Object)
	action := trace.Action{
		Kind: trace.KindDeliver, Verb: string(e.Type),
		Object: traceName(c.selector.kind, obj.GetNamespace(), obj.GetName()),
	}
	detail := "rv=" + obj.GetResourceVersion()
	if e.Type == watch.Bookmark && obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
		action.Verb = "LIST"
		detail = strconv.Itoa(c.initial) + " items " + detail
	}
	out := c.gate.CallContext(ctx, action, func() trace.Outcome { return trace.Outcome{Detail: detail} })
	return out.Err == nil
}
