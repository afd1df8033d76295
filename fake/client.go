package fake

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A Clientset is a typed client of the server. Each request is one Call of a sim.Caller. Results
// belong to the caller; arguments are not retained. A request whose context has ended has no effect
// and returns the context's error. Groups and built-in kinds that the server lacks answer 404 "the
// server could not find the requested resource". Use Dynamic, Metadata or Resource for custom
// resources. The methods are safe for concurrent use if the Caller is. A zero Clientset has no
// server, and its methods panic.
type Clientset struct {
	// client-go's clientset: see unservedClient
	kubernetes.Interface

	server        *Server
	caller        sim.Caller
	manager       string                     // of the written fields; see As
	interceptor   Interceptor                // nil: requests go to the server
	user          *authenticationv1.UserInfo // nil: see userInfo
	withoutCopies bool                       // see WithoutCopies
	cached        *cachedReads               // nil: reads are live; see WithReads

	// the clients of the groups that a storage control plane calls most; see bind
	core    coreV1
	storage storageV1
}

var _ kubernetes.Interface = (*Clientset)(nil)

// zeroMsg is the panic of a Clientset that no server is behind.
const zeroMsg = "fake: a zero Clientset has no server: use NewClientset, NewSimpleClientset or Server.Client"

// mustHaveServer panics if the client is a zero value.
func (c *Clientset) mustHaveServer() {
	if c == nil || c.server == nil {
		panic(zeroMsg)
	}
}

// base returns client-go's clientset: see unservedClient.
func (c *Clientset) base() kubernetes.Interface {
	c.mustHaveServer()
	return c.Interface
}

// IsWatchListSemanticsUnSupported reports whether informers over the client must list and then
// watch. The server supports a watch with initial events. An Interceptor may not, as it may answer
// watches itself: it says so by a method of this name.
//
// Upstream: k8s.io/client-go/util/watchlist.
func (c *Clientset) IsWatchListSemanticsUnSupported() bool {
	return c != nil && watchlist.DoesClientNotSupportWatchListSemantics(c.interceptor)
}

// Client returns a client that makes its requests through caller.
func (s *Server) Client(caller sim.Caller) *Clientset {
	c := &Clientset{Interface: s.unserved, server: s, caller: caller}
	c.bind()
	return c
}

// bind sets the clients of groups that the client keeps.
func (c *Clientset) bind() {
	c.core, c.storage = coreV1{c.base().CoreV1(), c}, storageV1{c.base().StorageV1(), c}
}

// clone returns a copy of the client.
func (c *Clientset) clone() *Clientset {
	out := *c
	out.bind()
	return &out
}

// WithoutCopies returns a client whose reads return stored objects without copying. Callers must
// not modify them. Watches return copies all the same.
func (c *Clientset) WithoutCopies() *Clientset {
	out := c.clone()
	out.withoutCopies = true
	return out
}

// A request is the name of a request in the trace.
type request struct {
	verb   string
	object string // resource[/namespace][/name]
}

func traceName(k *kind, namespace, name string) string {
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

// call makes a request by calling effect. If the context has ended the request fails without
// effect. It still is a call, so a task whose host was closed is unwound here and does not see the
// error.
func (c *Clientset) call(ctx context.Context, r request, effect func(w writer) trace.Outcome) error {
	out := sim.CallContext(ctx, c.caller, trace.Action{Kind: trace.KindAPI, Verb: r.verb, Object: r.object},
		func(changes *sim.Commit) trace.Outcome {
			if err := ctx.Err(); err != nil {
				return trace.Outcome{Err: err}
			}
			return effect(writer{Server: c.server, changes: changes, user: c.user})
		})
	return out.Err
}

// write makes a request that writes, as call does, and returns its result.
func (c *Clientset) write(ctx context.Context, r request,
	effect func(w writer) (writeResult, error),
) (writeResult, error) {
	var done writeResult
	out := sim.CallContext(ctx, c.caller, trace.Action{Kind: trace.KindAPI, Verb: r.verb, Object: r.object},
		func(changes *sim.Commit) trace.Outcome {
			err := ctx.Err()
			if err == nil {
				done, err = effect(writer{Server: c.server, changes: changes, user: c.user, object: r.object})
			}
			if err != nil {
				return trace.Outcome{Err: err}
			}
			return done.outcome()
		})
	return done, out.Err
}

func (w *writeResult) outcome() trace.Outcome {
	out := trace.Outcome{Gone: w.deleted && w.after != nil}
	switch {
	case w.object == nil:
		return out
	case w.after != nil:
		out.Detail = detailOfVersion(w.after.GetResourceVersion())
		out.After = w.after
	case w.object.GetResourceVersion() != "":
		out.Detail = detailOfVersion(w.object.GetResourceVersion())
	}
	if w.before != nil {
		out.Before = w.before
	}
	return out
}
