package fake

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/sim/trace"
)

// HasGate tells whether the events of the watch go through a sim.Gate: whoever moves it does best to hand on what he has
// before Arrive.
func (c *Cursor) HasGate() bool { return c != nil && c.gate != nil }

// PassGate returns true when an event that Next gave may be shown to whoever watches, which is at once unless the watch's
// client has a sim.Gate; and false when the watch is over: ctx has ended, or the gate lets nothing through any more.
//
// Initial events that end with a bookmark go through the gate together, as one action LIST, before the bookmark: nobody
// takes them for the state of the world before that.
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
		Object: name(c.selector.kind, obj.GetNamespace(), obj.GetName()),
	}
	detail := "rv=" + obj.GetResourceVersion()
	if e.Type == watch.Bookmark && obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
		action.Verb = "LIST"
		detail = strconv.Itoa(c.initial) + " items " + detail
	}
	out := c.gate.CallContext(ctx, action, func() trace.Outcome { return trace.Outcome{Detail: detail} })
	return out.Err == nil
}
