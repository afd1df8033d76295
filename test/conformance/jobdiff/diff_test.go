package jobdiff

import (
	"context"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	upstream "k8s.io/kubernetes/pkg/controller/job"

	"github.com/volsim/volsim/controllers/job"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type history = histories.History[step]

// both are our controller and upstream's.
var both = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: 20,
	Ours: []controllers.Controller{
		{Name: "job", Source: job.EventSource, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			job.New(job.Config{Process: process, Client: client, Informers: informers, Recorder: recorder})
		}},
	},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		controller, err := upstream.NewController(ctx, client, informers.Core().V1().Pods(), informers.Batch().V1().Jobs(), nil, nil)
		return []func(context.Context){func(ctx context.Context) { controller.Run(ctx, 1) }}, err
	},
}

// pair has no deliberate differences.
var pair = both.Histories(nil)

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 200 histories.
func TestHistories(t *testing.T) { pair.Run(t, 2, drawHistory, 10) }
