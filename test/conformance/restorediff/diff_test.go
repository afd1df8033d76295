package restorediff

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	upstream "github.com/kubernetes-csi/external-provisioner/v6/pkg/controller"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	csitrans "k8s.io/csi-translation-lib"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

// The delays of retries. The longest one is much shorter than a step.
const (
	backoffMin = time.Second
	backoffMax = 30 * time.Second
	// sweepPeriod is how often upstream's controller looks for unneeded finalizers.
	sweepPeriod = 30 * time.Second
	// ticks make a step of 100 s.
	ticks = 20
)

// both are our controller and upstream's.
var both = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: ticks,
	Ours: []controllers.Controller{{
		Name: "provisioner", Source: driverName, Filters: provisioner.Filters,
		New: func(process *sim.Process, client *fake.Clientset, informers informers.SharedInformerFactory, recorder record.EventRecorder) {
			_, err := provisioner.New(provisioner.Config{
				Process: process, Client: client, Informers: informers, Recorder: recorder, DriverName: driverName, Conn: newDriver(client),
				Snapshots: true, Dynamic: client.Dynamic(), BackoffMin: backoffMin, BackoffMax: backoffMax, Workers: 1,
			})
			must(err)
		},
	}},
	Upstream: newUpstream,
}

func limiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](backoffMin, backoffMax)
}

// newUpstream creates upstream's controllers as csi-provisioner does, with one worker each.
//
// Upstream: external-provisioner cmd/csi-provisioner main (6.3.0).
func newUpstream(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) ([]func(context.Context), error) {
	snapshots, err := snapshotclient.NewForConfig(histories.ConfigOf(client))
	if err != nil {
		return nil, err
	}
	conn, err := storeddriver.Conn(newDriver(client))
	if err != nil {
		return nil, err
	}
	can := rpc.ControllerCapabilitySet{}
	for _, one := range capabilities {
		can[one] = true
	}
	claims, claimInformer := factory.Core().V1().PersistentVolumeClaims().Lister(), factory.Core().V1().PersistentVolumeClaims().Informer()
	plugin := upstream.NewCSIProvisioner(client, time.Minute, "identity", "pvc", -1, conn, snapshots, driverName,
		rpc.PluginCapabilitySet{csispec.PluginCapability_Service_CONTROLLER_SERVICE: true}, can, "", false, true, csitrans.New(), factory.Storage().V1().StorageClasses().Lister(), nil, nil, claims, nil, nil,
		false, "ext4", nil, false, true, nil)
	provision := controller.NewProvisionController(ctx, client, driverName, plugin,
		controller.LeaderElection(false), controller.FailedProvisionThreshold(0), controller.FailedDeleteThreshold(0), controller.RateLimiter(limiter()),
		controller.Threadiness(1), controller.CreateProvisionedPVLimiter(limiter()), controller.ClaimsInformer(claimInformer),
		controller.RetryIntervalMax(backoffMax), controller.AddFinalizer(true))
	cloning := upstream.NewCloningProtectionController(client, claims, claimInformer, workqueue.NewTypedRateLimitingQueue(limiter()), can)
	sweeper := upstream.NewSnapshotFinalizerController(snapshots, claims, can, sweepPeriod)
	return []func(context.Context){
		func(ctx context.Context) {
			provision.Run(ctx)
			histories.ShutDownEvents(provision)
			histories.ShutDownEvents(plugin)
			must(conn.Close())
		},
		func(ctx context.Context) {
			var workers sync.WaitGroup
			cloning.Run(ctx, 1, &workers)
			workers.Wait()
		},
		func(ctx context.Context) {
			var workers sync.WaitGroup
			sweeper.Run(ctx, &workers)
			workers.Wait()
		},
	}, nil
}

var pair = both.Histories(deliberate)

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 100 histories, one after the other: the library of upstream's provisioner registers
// types with client-go's scheme whenever a controller is created.
func TestHistories(t *testing.T) { pair.Run(t, 1, drawHistory, 10) }

// deliberate lists the allowed differences. A history ends at the first one. Each is documented with
// "Differs:" in our controller.
var deliberate = []histories.Difference[step, *world]{
	// unplaced.go: upstream notices a change of the source at its next retry only.
	{Name: "a claim is tried again when its source changes", Explains: func(d delta, _, line string) bool {
		return slices.Contains(d.Ours, line) && strings.HasPrefix(line, "event ") && strings.Contains(line, "is currently being deleted")
	}},
}
