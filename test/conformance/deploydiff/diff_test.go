package deploydiff

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	upstreamdeployment "k8s.io/kubernetes/pkg/controller/deployment"
	upstreamreplicaset "k8s.io/kubernetes/pkg/controller/replicaset"

	"github.com/volsim/volsim/controllers/deployment"
	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

// both are our controllers and upstream's.
var both = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: 20,
	Ours: []controllers.Controller{
		{Name: "deployment", Source: deployment.EventSource, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			deployment.New(deployment.Config{Process: process, Client: client, Informers: informers, Recorder: recorder})
		}},
		{Name: "replicaset", Source: replicaset.EventSource, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			replicaset.New(replicaset.Config{Process: process, Client: client, Informers: informers, Recorder: recorder})
		}},
	},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		apps, pods := informers.Apps().V1(), informers.Core().V1().Pods()
		rollouts, err := upstreamdeployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), pods, client)
		sets := upstreamreplicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), pods, client, upstreamreplicaset.BurstReplicas)
		return []func(context.Context){
			func(ctx context.Context) { rollouts.Run(ctx, 1) },
			func(ctx context.Context) { sets.Run(ctx, 1) },
		}, err
	},
}

var pair = both.Histories(deliberate)

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 200 histories.
func TestHistories(t *testing.T) { pair.Run(t, 2, drawHistory, 10) }

// deliberate lists the allowed differences. A history ends at the first one. Each is documented with
// "Differs:" in our controllers.
var deliberate = []histories.Difference[step, *world]{
	// updateStatus of do.go: the second write of upstream's sync conflicts. Until the retry, the status
	// of the new set may have become that of the old one.
	{Name: "a status is written in the sync that creates a set", Explains: func(d delta, _, line string) bool {
		const created, updated = "NewReplicaSetCreated Created new", "ReplicaSetUpdated ReplicaSet"
		return strings.HasPrefix(line, "deployments ") && strings.Contains(d.String(), created) && strings.Contains(d.String(), updated) &&
			(strings.Contains(line, created) || strings.Contains(line, updated))
	}},
	// sync of controller.go: upstream numbers a set although its cache lacks the number of another one.
	// The set then gets a second number.
	{Name: "a number is not given twice", Explains: func(d delta, _, line string) bool {
		return strings.HasPrefix(line, "replicasets ") && strings.Contains(line, "revision-history:") &&
			strings.Contains(d.History.String(), "roll back")
	}},
	// roll of rolling.go: upstream ignores an error of scaling old sets down.
	{Name: "a failure to scale down is retried", Explains: func(d delta, _, _ string) bool {
		return slices.ContainsFunc(d.History, func(s step) bool { return s.Fault.Request == "update replicasets" })
	}},
}
