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

// requestTimeout is the timeout of a request if the config has none.
//
// Upstream: kube-apiserver --request-timeout (v1.36): the server gives up by then.
const requestTimeout = time.Minute

// shutdownGrace is how long a write in flight may take after the host is closed. It is less than
// the time between the last renewal of a leader and the takeover by another one, by upstream's
// settings.
const shutdownGrace = 3 * time.Second

// The media types that are sent and accepted: protobuf where a resource has it.
const (
	mediaProtobuf = runtime.ContentTypeProtobuf
	acceptBoth    = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
)

// FieldSelector restricts a process's cache of a resource to the objects that match a field
// selector.
type FieldSelector struct {
	Resource string // such as "configmaps"
	Fields   string // such as "metadata.name=kube-root-ca.crt"
}

// Connection is the connection of one process to an API server.
type Connection struct {
	process   *sim.Process
	direct    *rest.Config // requests that do not leave the process: for reflectors
	suspended *rest.Config
	client    *kubernetes.Clientset
	discovery *discovery.DiscoveryClient // direct
	fields    map[string]string          // field selectors by resource
	factory   *factory

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // guarded by mu: of Run; nil before
	waiting []runner        // guarded by mu: started before Run
	wg      sync.WaitGroup
}

// New returns a connection for a process. It makes no request before Run or the first use of a
// client.
//
// The config's client-side rate limit is dropped, since a task would wait for it inside its
// process. The server limits requests itself. Timeout applies to each request except watches. The
// process's name is the user agent. An error means that the config is invalid.
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
	seen := &objectMemory{lookup: func(resource, key string) runtime.Object {
		return conn.factory.cached(resource,
			key)
	}}
	conn.suspended.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, process: c, base: base.Path, timeout: timeout, memory: seen}
	})
	short := rest.CopyConfig(conn.suspended)
	short.ContentType, short.AcceptContentTypes = mediaProtobuf, acceptBoth
	if conn.client, err = kubernetes.NewForConfig(short); err != nil {
		return nil, fmt.Errorf("connect %s: %w", c.Name(), err)
	}
	direct := rest.CopyConfig(conn.direct)
	direct.Timeout = timeout
	if conn.discovery, err = discovery.NewDiscoveryClientForConfig(direct); err != nil {
		return nil, fmt.Errorf("connect %s: %w", c.Name(), err)
	}
	for _, s := range selections {
		conn.fields[s.Resource] = s.Fields
	}
	conn.factory = newFactory(conn, timeout)
	return conn, nil
}

// Client returns a client whose requests are each one Call of the process. It is for the process's
// tasks.
func (c *Connection) Client() kubernetes.Interface { return c.client }

// Config returns a configuration for other clients whose requests are Calls of the process. They
// must make requests on the task's own goroutine.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.suspended) }

// Discover returns the served namespaced resources, each in its preferred version, as one Call of
// the process. A partial result may accompany an error.
func (c *Connection) Discover() (found []*metav1.APIResourceList, err error) {
	c.process.Call(trace.Action{Kind: trace.KindAPI, Verb: "get", Object: "/apis"}, func() trace.Outcome {
		found, err = c.discovery.ServerPreferredNamespacedResources()
		return trace.Outcome{Err: err}
	})
	return found, err
}

// Informers returns the process's informers, each created at its first use. The process's workers
// start after all informers that exist by then have listed.
func (c *Connection) Informers() informers.SharedInformerFactory { return c.factory }

// Run keeps the process's caches up to date until ctx ends, and returns when all their requests
// have ended. It is called once.
func (c *Connection) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, f := range c.waiting {
		c.wg.Go(func() { f.run(ctx) })
	}
	c.waiting = nil
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock() // from here on start does nothing
	defer c.mu.Unlock()
	c.wg.Wait()
}

// runner is a task of Run.
type runner interface{ run(ctx context.Context) }

// start runs r now, or when Run is called.
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
