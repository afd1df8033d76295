// Package testutil starts our API server and our scheduler for upstream's integration tests. Its names are those of
// the package of upstream's that it replaces, k8s.io/kubernetes test/integration/util.
package testutil

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/features"

	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/controllers/pvprotection"
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

	host   *sim.Live
	server *fake.Server
}

// runner starts the scheduler.
type runner struct{ start func() }

// Run starts the scheduler.
func (r *runner) Run(context.Context) { r.start() }

// InitTestAPIServer starts an API server and the controllers that protect claims and volumes, and creates a
// namespace. Upstream's runs without this protection.
func InitTestAPIServer(t *testing.T, name string, _ any) *TestContext {
	t.Helper()
	host := sim.NewLive(sim.LiveConfig{})
	server := fake.NewServer(fake.Config{Now: host.Now})
	caller := host.ExternalCaller()
	client, err := kubernetes.NewForConfig(apiserver.NewConfig(server, caller))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		host.Close()
	})
	for name, start := range map[string]func(*sim.Process){
		"pvcprotection": func(p *sim.Process) {
			pvcprotection.New(pvcprotection.Config{Process: p, Client: server.Client(p), Informers: server.Informers(p)})
		},
		"pvprotection": func(p *sim.Process) {
			pvprotection.New(pvprotection.Config{Process: p, Client: server.Client(p), Informers: server.Informers(p)})
		},
	} {
		start(host.Process(name))
	}
	host.Start()
	ns, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &TestContext{Ctx: ctx, ClientSet: client, NS: ns, host: host, server: server}
}

// InitTestSchedulerWithOptions prepares the scheduler.
func InitTestSchedulerWithOptions(t *testing.T, c *TestContext, _ time.Duration) *TestContext {
	c.Scheduler = &runner{start: func() {
		p := c.host.Process("scheduler")
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
