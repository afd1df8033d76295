package snapdiff

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshotscheme "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/scheme"
	snapshotinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	common "github.com/kubernetes-csi/external-snapshotter/v8/pkg/common-controller"
	"github.com/kubernetes-csi/external-snapshotter/v8/pkg/metrics"
	sidecar "github.com/kubernetes-csi/external-snapshotter/v8/pkg/sidecar-controller"
	upstreamsnapshotter "github.com/kubernetes-csi/external-snapshotter/v8/pkg/snapshotter"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/volsim/volsim/controllers/snapshot"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sidecars/snapshotter"
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
	// ticks make a step of 100 s.
	ticks = 20
)

// both are our controllers and upstream's.
var both = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: ticks,
	Ours: []controllers.Controller{
		{Name: "snapshotcontroller", Source: snapshot.EventSource, Filters: snapshot.Filters, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			must(snapshot.New(snapshot.Config{
				Process: process, Client: client, Dynamic: client.Dynamic(), Informers: informers, Recorder: recorder,
			}))
		}},
		{
			Name: "snapshotter", Source: "csi-snapshotter " + driverName,
			Filters: func(func() informers.SharedInformerFactory) []fake.Filter { return snapshotter.Filters(driverName) },
			New: func(process *sim.Process, client *fake.Clientset, informers informers.SharedInformerFactory, recorder record.EventRecorder) {
				_, err := snapshotter.New(snapshotter.Config{
					Process: process, Client: client, Dynamic: client.Dynamic(), Informers: informers, Recorder: recorder,
					DriverName: driverName, Conn: newDriver(client), BackoffMin: backoffMin, BackoffMax: backoffMax, Workers: 1,
				})
				must(err)
			},
		},
	},
	Upstream: newUpstream,
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// limiter returns the delays of a queue of upstream's.
func limiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](backoffMin, backoffMax)
}

// newUpstream creates upstream's controllers, with one worker each.
func newUpstream(_ context.Context, client kubernetes.Interface, core informers.SharedInformerFactory) ([]func(context.Context), error) {
	clients, err := snapshotclient.NewForConfig(histories.ConfigOf(client))
	if err != nil {
		return nil, err
	}
	factory := snapshotinformers.NewSharedInformerFactory(clients, 0)
	v1, groups, claims := factory.Snapshot().V1(), factory.Groupsnapshot().V1(), core.Core().V1()
	controller := common.NewCSISnapshotCommonController(clients, client, v1.VolumeSnapshots(), v1.VolumeSnapshotContents(), v1.VolumeSnapshotClasses(),
		groups.VolumeGroupSnapshots(), groups.VolumeGroupSnapshotContents(), groups.VolumeGroupSnapshotClasses(),
		claims.PersistentVolumeClaims(), claims.PersistentVolumes(), nil, noMetrics{}, 0, limiter(), limiter(), limiter(), limiter(), false, true, false)

	conn, err := storeddriver.Conn(newDriver(client))
	if err != nil {
		return nil, err
	}
	others := snapshotinformers.NewSharedInformerFactory(clients, 0)
	v1, groups = others.Snapshot().V1(), others.Groupsnapshot().V1()
	taker := sidecar.NewCSISnapshotSideCarController(clients, client, driverName, v1.VolumeSnapshotContents(), v1.VolumeSnapshotClasses(),
		upstreamsnapshotter.NewSnapshotter(conn), nil, time.Minute, 0, "snapshot", -1, "groupsnapshot", -1, false, limiter(), false,
		groups.VolumeGroupSnapshotContents(), groups.VolumeGroupSnapshotClasses(), limiter())

	run := func(factory snapshotinformers.SharedInformerFactory, run func(int, <-chan struct{}, *sync.WaitGroup)) func(context.Context) {
		return func(ctx context.Context) {
			factory.Start(ctx.Done())
			var workers sync.WaitGroup
			run(1, ctx.Done(), &workers)
			workers.Wait()
			factory.Shutdown()
		}
	}
	runTaker := run(others, taker.Run)
	return []func(context.Context){run(factory, controller.Run), func(ctx context.Context) {
		runTaker(ctx)
		histories.ShutDownEvents(taker)
		must(conn.Close())
	}}, nil
}

// noMetrics ignores upstream's metrics.
type noMetrics struct{ metrics.MetricsManager }

// OperationStart does nothing, as the other methods.
func (noMetrics) OperationStart(metrics.OperationKey, metrics.OperationValue) {}

func (noMetrics) DropOperation(metrics.OperationKey) {}

func (noMetrics) RecordMetrics(metrics.OperationKey, metrics.OperationStatus, string) {}

func (noMetrics) RecordVolumeGroupSnapshotMetrics(metrics.OperationKey, metrics.OperationStatus, string) {
}

var pair = both.Histories(deliberate)

func TestMain(m *testing.M) {
	must(snapshotscheme.AddToScheme(scheme.Scheme)) // as upstream's programs do
	histories.Main(m)
}

// TestHistories compares 500 histories.
func TestHistories(t *testing.T) { pair.Run(t, 5, drawHistory, 10) }

// deliberate lists the allowed differences. A history ends at the first one. Each is documented with
// "Differs:" in our controllers.
var deliberate = []histories.Difference[step, *world]{
	// syncContent of the snapshotter: a content is read before a request is repeated.
	{Name: "a failed read before a repeated request is not reported", Explains: func(d delta, _, line string) bool {
		return failed(d.History[len(d.History)-1:], "get volumesnapshotcontents") && strings.Contains(line, "SnapshotContentCheckandUpdateFailed")
	}},
	// markDeleted of delete.go: upstream marks the object of its cache before the request.
	{Name: "a content is marked again if that failed", Explains: func(d delta, _, _ string) bool {
		return failed(d.History, "patch volumesnapshotcontents")
	}},
	// protect of sync.go: upstream updates a snapshot that has none.
	{Name: "the first finalizer of a snapshot is added by a patch", Explains: func(d delta, _, line string) bool {
		last := d.History[len(d.History)-1:]
		return (failed(last, "update volumesnapshots") || failed(last, "patch volumesnapshots")) && strings.Contains(line, "SnapshotFinalizerError")
	}},
}

// failed reports whether a kind of request failed.
func failed(h history, request string) bool {
	return slices.ContainsFunc(h, func(s step) bool { return s.Fault.Kind != "" && s.Fault.Request == request })
}
