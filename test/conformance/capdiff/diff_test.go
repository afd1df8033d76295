package capdiff

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/kubernetes-csi/external-provisioner/v6/pkg/capacity"
	"github.com/kubernetes-csi/external-provisioner/v6/pkg/capacity/topology"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type history = histories.History[step]

// ticks make a step longer than the period in which the driver is asked.
const ticks = 20

var owner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "driver", UID: "driver-uid", Controller: ptr.To(true)}

func newPair(immediate bool) controllers.Pair[*world] {
	return controllers.Pair[*world]{
		NewWorld: newWorld, Ticks: ticks,
		Ours: []controllers.Controller{{Name: "provisioner", Source: driverName, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			provisioner.New(provisioner.Config{
				Process: process, Client: client, Informers: informers, Recorder: recorder,
				DriverName: driverName, Conn: driver{client: client}, Topology: true,
				CapacityNamespace: namespace, CapacityOwner: owner, CapacityImmediate: immediate,
			})
		}}},
		Upstream: func(_ context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory,
		) ([]func(context.Context), error) {
			ours := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
				informers.WithTweakListOptions(func(o *metav1.ListOptions) {
					o.LabelSelector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: managed})
				}))
			nodes := topology.NewNodeTopology(driverName, client, factory.Core().V1().Nodes(), factory.Storage().V1().CSINodes(),
				workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()))
			controller := capacity.NewCentralCapacityController(driver{client: client}, driverName, capacity.NewV1ClientFactory(client),
				workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[capacity.QueueKey](time.Second, 5*time.Minute)),
				owner, managed[capacity.ManagedByLabel], namespace, nodes, factory.Storage().V1().StorageClasses(),
				ours.Storage().V1().CSIStorageCapacities(), time.Minute, immediate, 10*time.Second)
			return []func(context.Context){nodes.RunWorker, func(ctx context.Context) {
				ours.Start(ctx.Done())
				controller.Run(ctx, 1, nil)
				ours.Shutdown()
			}}, nil
		},
	}
}

var (
	delayed = newPair(false).Histories(nil)
	all     = newPair(true).Histories(nil)
)

func TestMain(m *testing.M) { histories.Main(m) }

// TestCapacities compares 1000 histories of a provisioner that publishes for classes with delayed binding.
func TestCapacities(t *testing.T) { delayed.Run(t, 10, drawHistory, 20) }

// TestCapacitiesOfAllClasses compares 500 histories of one that publishes also for immediate binding.
func TestCapacitiesOfAllClasses(t *testing.T) { all.Run(t, 5, drawHistory, 20) }
