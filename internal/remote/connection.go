package remote

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// requestTimeout is how long a request may take at most where the config says nothing.
//
// Upstream: kube-apiserver --request-timeout (v1.36): the server gives up by then.
const requestTimeout = time.Minute

// shutdownGrace is how long a request that is under way when the host is closed may take to be answered. It is less than what lies
// between the moment at which a leader gives up and that at which another one may take over, by upstream's settings.
const shutdownGrace = 3 * time.Second

// mediaTypes are what is asked for and sent: the short form where there is one.
const (
	mediaProtobuf = runtime.ContentTypeProtobuf
	acceptBoth    = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
)

// FieldSelector limits a component's view of a resource to the objects that a field selector selects.
type FieldSelector struct {
	Resource string // such as "configmaps"
	Fields   string // such as "metadata.name=kube-root-ca.crt"
}

// Connection is one component's way to an API server.
type Connection struct {
	process   *sim.Process
	direct    *rest.Config // its requests do not leave the component: for reflectors
	suspended *rest.Config
	client    *kubernetes.Clientset
	discovery *discovery.DiscoveryClient // direct
	fields    map[string]string          // by resource: of what its view is limited to
	factory   *factory

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // guarded by mu: of Run; nil before
	waiting []runner        // guarded by mu: made before Run
	wg      sync.WaitGroup
}

// New makes the connection of a component. Nothing is asked of the server before Run, or before somebody uses the client.
//
// Of the config the client-side limit of requests is not kept: a strand would wait for it inside its component. The server
// says when it has enough. Timeout is kept, for each request but those of watches. The component's name is the user agent.
func New(cfg *rest.Config, c *sim.Process, selections ...FieldSelector) (*Connection, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", c.Name(), err)
	}
	conn := &Connection{process: c, direct: rest.CopyConfig(cfg), fields: map[string]string{}}
	conn.direct.UserAgent = c.Name() + " (" + rest.DefaultKubernetesUserAgent() + ")"
	conn.direct.QPS, conn.direct.RateLimiter, conn.direct.Timeout = -1, nil, 0
	conn.suspended = rest.CopyConfig(conn.direct)
	timeout := cfg.Timeout
	if timeout == 0 {
		timeout = requestTimeout
	}
	seen := &objectMemory{lookup: func(resource, key string) runtime.Object { return conn.factory.cached(resource, key) }}
	conn.suspended.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, process: c, base: base.Path, timeout: timeout, memory: seen}
	})
	short := rest.CopyConfig(conn.suspended)
	short.ContentType, short.AcceptContentTypes = mediaProtobuf, acceptBoth
	if conn.client, err = kubernetes.NewForConfig(short); err != nil {
		return nil, fmt.Errorf("connect %s: %w", c.Name(), err)
	}
	asking := rest.CopyConfig(conn.direct)
	asking.Timeout = timeout
	if conn.discovery, err = discovery.NewDiscoveryClientForConfig(asking); err != nil {
		return nil, fmt.Errorf("connect %s: %w", c.Name(), err)
	}
	for _, s := range selections {
		conn.fields[s.Resource] = s.Fields
	}
	conn.factory = newFactory(conn, timeout)
	return conn, nil
}

// Client is a client of which each request is one Call of the component. It is for the component's strands.
func (c *Connection) Client() kubernetes.Interface { return c.client }

// Config is a configuration for other clients whose requests are to be Calls of the component, as Client's are. They must
// make them on the strand's own goroutine.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.suspended) }

// Discover finds the namespaced resources that are served, in the preferred version each, as one Call of the component. An error may
// come with what was found all the same.
func (c *Connection) Discover() (found []*metav1.APIResourceList, err error) {
	c.process.Call(trace.Action{Kind: trace.KindAPI, Verb: "get", Object: "/apis"}, func() trace.Outcome {
		found, err = c.discovery.ServerPreferredNamespacedResources()
		return trace.Outcome{Err: err}
	})
	return found, err
}

// Informers returns the component's views, made as they are asked for. The component's workers do not start before all that
// were asked for by then have listed.
func (c *Connection) Informers() informers.SharedInformerFactory { return c.factory }

// Run keeps the component's views up to date until ctx ends, and returns when nobody asks the server for their sake any
// more. It is called once.
func (c *Connection) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, f := range c.waiting {
		c.wg.Go(func() { f.run(ctx) })
	}
	c.waiting = nil
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock() // whoever is about to be started is started, or never will be
	defer c.mu.Unlock()
	c.wg.Wait()
}

// runner is what Run runs.
type runner interface{ run(ctx context.Context) }

// start lets a view be kept up to date, now or when Run is called.
func (c *Connection) start(f runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx == nil:
		c.waiting = append(c.waiting, f)
	case c.ctx.Err() == nil:
		c.wg.Go(func() { f.run(c.ctx) })
	}
}
