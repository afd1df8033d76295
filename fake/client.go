package fake

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Clientset is a typed client of the server that makes its requests through a sim.Caller: every request is one Call.
// What it hands out is the caller's own; what it is given it does not keep. A request whose context is done has no
// effect and returns the context's error. Groups and built-in kinds the server does not have answer 404 "the server
// could not find the requested resource"; custom resources are for Dynamic, Metadata and Resource. Its methods may be
// called concurrently as far as the Caller's may.
type Clientset struct {
	kubernetes.Interface // refuses; for the groups that the server does not have

	server        *Server
	caller        sim.Caller
	manager       string                     // of the fields it writes; see As
	interceptor   Interceptor                // nil: the server is asked
	user          *authenticationv1.UserInfo // nil: see who
	withoutCopies bool                       // see Sharing
}

var _ kubernetes.Interface = (*Clientset)(nil)

// Client returns a client that makes its requests through caller.
func (s *Server) Client(caller sim.Caller) *Clientset {
	return &Clientset{Interface: unservedClient(), server: s, caller: caller}
}

// WithoutCopies returns the client as one that hands out the stored objects themselves, shared with everybody: read-only, as those
// of a view are. It is for a component that changes nothing it was given, and saves it the copies. What a watch hands out
// is the watcher's own nevertheless.
func (c *Clientset) WithoutCopies() *Clientset {
	out := *c
	out.withoutCopies = true
	return &out
}

// request names a request in the trace.
type request struct {
	verb   string
	object string // resource[/namespace][/name]
}

func name(k *kind, namespace, name string) string {
	switch {
	case namespace == "" && name == "":
		return k.resource
	case namespace == "":
		return k.resource + "/" + name
	case name == "":
		return k.resource + "/" + namespace
	}
	return k.resource + "/" + namespace + "/" + name
}

// call makes a request: effect does it, and tells of it. One whose context has ended fails without effect; it is a call
// all the same, so that a strand whose host was closed is unwound here and does not see the error.
func (c *Clientset) call(ctx context.Context, r request, effect func() trace.Outcome) error {
	out := sim.CallContext(ctx, c.caller, trace.Action{Kind: trace.KindAPI, Verb: r.verb, Object: r.object}, func() trace.Outcome {
		if err := ctx.Err(); err != nil {
			return trace.Outcome{Err: err}
		}
		return effect()
	})
	return out.Err
}

// write makes a request that writes, and returns what became of it.
func (c *Clientset) write(ctx context.Context, r request, effect func() (written, error)) (written, error) {
	var done written
	err := c.call(ctx, r, func() trace.Outcome {
		var err error
		if done, err = effect(); err != nil {
			return trace.Outcome{Err: err}
		}
		return done.outcome()
	})
	return done, err
}

func (w *written) outcome() trace.Outcome {
	out := trace.Outcome{Gone: w.gone && w.after != nil}
	switch {
	case w.object == nil:
		return out
	case w.after != nil:
		out.Detail = detailPrefix + w.after.GetResourceVersion()
		out.After = w.after
	case w.object.GetResourceVersion() != "":
		out.Detail = detailPrefix + w.object.GetResourceVersion()
	}
	if w.before != nil {
		out.Before = w.before
	}
	return out
}
