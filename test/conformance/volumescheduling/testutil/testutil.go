// Package testutil starts our API server and our scheduler for upstream's integration tests. Its names are those of
// the package of upstream's that it replaces, k8s.io/kubernetes test/integration/util.
package testutil

import (
	"context"
	"net/http"
	"path"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/features"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sim"
)

// TestContext is an API server with a namespace of a test.
type TestContext struct {
	Ctx       context.Context
	ClientSet kubernetes.Interface
	NS        *v1.Namespace
	Scheduler *runner

	host    *sim.Live
	server  *fake.Server
	process *sim.Process // of the scheduler; nil: there is none
}

// runner starts the scheduler.
type runner struct{ start func() }

// Run starts the scheduler.
func (r *runner) Run(context.Context) { r.start() }

// InitTestAPIServer starts an API server that does not protect claims and volumes, as upstream's, and creates a
// namespace.
func InitTestAPIServer(t *testing.T, name string, _ any) *TestContext {
	t.Helper()
	host := sim.NewLive(sim.LiveConfig{})
	server := fake.NewServer(fake.Config{Now: host.Now, SkipProtection: true})
	caller := host.ExternalCaller()
	c := &TestContext{host: host, server: server}
	cfg := apiserver.NewConfig(server, caller)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return classesSeen{c, next} })
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		host.Close()
	})
	host.Start()
	ns, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Ctx, c.ClientSet, c.NS = ctx, client, ns
	return c
}

// classesSeen delays the creation of a pod until the scheduler has seen what happened to classes before. Upstream's tests
// delete a class and create pods that depend on its absence at once. Upstream's API server takes milliseconds for each
// request, ours microseconds: the scheduler would still have the class in its cache.
type classesSeen struct {
	*TestContext
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s classesSeen) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.process != nil && r.Method == http.MethodPost && path.Base(r.URL.Path) == "pods" {
		if err := s.host.Wait(r.Context(), "the scheduler to see all classes", func() bool {
			return s.server.PendingEvents(s.process, "storageclasses") == 0
		}); err != nil {
			return nil, err
		}
	}
	return s.next.RoundTrip(r)
}

// InitTestSchedulerWithOptions prepares the scheduler.
func InitTestSchedulerWithOptions(t *testing.T, c *TestContext, _ time.Duration) *TestContext {
	p := c.host.Process("scheduler")
	c.process = p
	c.Scheduler = &runner{start: func() {
		_, err := scheduler.New(scheduler.Config{
			Process: p, Client: c.server.Client(p), Informers: c.server.Informers(p), Recorder: noEvents{},
			StorageCapacityScoring: utilfeature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring),
		})
		if err != nil {
			t.Fatal(err)
		}
	}}
	return c
}

// SyncSchedulerInformerFactory does nothing: the scheduler waits for its caches.
func SyncSchedulerInformerFactory(*TestContext) {}

var _ record.EventRecorder = noEvents{}

// noEvents records no events.
type noEvents struct{}

func (noEvents) Event(runtime.Object, string, string, string)          {}
func (noEvents) Eventf(runtime.Object, string, string, string, ...any) {}
func (noEvents) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
