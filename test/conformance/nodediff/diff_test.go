package nodediff

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	upstreamcontroller "k8s.io/kubernetes/pkg/controller"
	upstreamlifecycle "k8s.io/kubernetes/pkg/controller/nodelifecycle"
	upstreampodgc "k8s.io/kubernetes/pkg/controller/podgc"
	upstreameviction "k8s.io/kubernetes/pkg/controller/tainteviction"

	"github.com/volsim/volsim/controllers/nodelifecycle"
	"github.com/volsim/volsim/controllers/podgc"
	"github.com/volsim/volsim/controllers/tainteviction"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	history = histories.History[step]
	pair    = histories.Pair[step, *world, controllers.Mutation]
)

// terminatedMax is the number of finished pods that are kept.
const terminatedMax = 2

var taintEviction = controllers.Pair[*world]{
	NewWorld: newWorld(true), Ticks: 20,
	Ours: []controllers.Controller{
		{Name: "tainteviction", Source: tainteviction.EventSource, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			tainteviction.New(tainteviction.Config{Process: process, Client: client, Informers: informers, Recorder: recorder})
		}},
	},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		pods := informers.Core().V1().Pods()
		if err := upstreamcontroller.AddPodNodeNameIndexer(pods.Informer()); err != nil {
			return nil, err
		}
		controller, err := upstreameviction.New(ctx, client, pods, informers.Core().V1().Nodes(), tainteviction.EventSource)
		return []func(context.Context){controller.Run}, err
	},
}.Histories(nil)

var podGC = controllers.Pair[*world]{
	NewWorld: newWorld(false), Ticks: 20,
	Ours: []controllers.Controller{
		{Name: "podgc", New: func(process *sim.Process, client *fake.Clientset, informers informers.SharedInformerFactory, _ record.EventRecorder) {
			podgc.New(podgc.Config{Process: process, Client: client, Informers: informers, TerminatedMax: terminatedMax})
		}},
	},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		core := informers.Core().V1()
		return []func(context.Context){upstreampodgc.NewPodGC(ctx, client, core.Pods(), core.Nodes(), terminatedMax).Run}, nil
	},
}.Histories(nil)

var bothNodeLifecycle = controllers.Pair[*world]{
	NewWorld: newWorld(false), Ticks: 40,
	Ours: []controllers.Controller{
		{Name: "nodelifecycle", Source: nodelifecycle.EventSource, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			nodelifecycle.New(nodelifecycle.Config{Process: process, Client: client, Informers: informers, Recorder: recorder})
		}},
	},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		controller, err := upstreamlifecycle.NewNodeLifecycleController(ctx, informers.Coordination().V1().Leases(),
			informers.Core().V1().Pods(), informers.Core().V1().Nodes(), informers.Apps().V1().DaemonSets(), client,
			5*time.Second, 60*time.Second, 50*time.Second, 0.1, 0.01, 50, 0.55)
		return []func(context.Context){controller.Run}, err
	},
}

var nodeLifecycle = bothNodeLifecycle.Histories(deliberate)

func TestMain(m *testing.M) { histories.Main(m) }

// TestTaintEviction compares 200 histories.
func TestTaintEviction(t *testing.T) { taintEviction.Run(t, 2, drawTaintEviction, 10) }

// TestPodGC compares 200 histories.
func TestPodGC(t *testing.T) { podGC.Run(t, 2, drawPodGC, 10) }

// TestNodeLifecycle compares 200 histories.
func TestNodeLifecycle(t *testing.T) { nodeLifecycle.Run(t, 2, drawNodeLifecycle, 10) }

// TestLargeZone compares a zone of so many nodes that some are tainted also while it is partially disrupted.
// Upstream taints nodes in map order, so only their numbers are compared.
func TestLargeZone(t *testing.T) {
	both := bothNodeLifecycle
	both.NewWorld = func(base *controllers.World) *world {
		w := newWorld(false)(base)
		w.counted = true
		return w
	}
	verdict := both.Histories(nil).Compare(t, history{
		{Act: createNodes{nodes: numbers(1, 52), zone: "a"}},
		{Act: silence{numbers(1, 30), true}},
		{Act: wait{}},
		{Act: silence{numbers(1, 14), false}},
		{Act: silence{numbers(1, 52), true}},
		{Act: createNodes{nodes: numbers(53, 55), zone: "a"}},
	}, nil)
	if verdict.Diff != "" || verdict.Undecided != "" {
		t.Error(verdict.Diff, verdict.Undecided)
	}
}

func numbers(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}
