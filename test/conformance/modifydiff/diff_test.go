package modifydiff

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	upstreammodifier "github.com/kubernetes-csi/external-resizer/v2/pkg/modifier"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/modifycontroller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

const (
	// slowDelay is the delay of an infeasible modification.
	slowDelay = 5 * time.Minute
	// ticks make a step longer than that.
	ticks = 70
)

// both are our controller and upstream's.
var both = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: ticks,
	Ours: []controllers.Controller{{
		Name: "resizer", Source: "external-resizer " + driverName,
		New: func(process *sim.Process, client *fake.Clientset, informers informers.SharedInformerFactory, recorder record.EventRecorder) {
			resizer.New(resizer.Config{
				Process: process, Client: client, Informers: informers, Recorder: recorder, DriverName: driverName, Conn: newDriver(client),
			})
		},
	}},
	Upstream: func(_ context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) ([]func(context.Context), error) {
		modifier, err := upstreammodifier.NewModifierFromClient(newDriver(client), time.Minute, client, factory, false, driverName)
		if err != nil {
			return nil, err
		}
		controller := modifycontroller.NewModifyController(driverName, modifier, client, 0, slowDelay, false, factory,
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 20*time.Second))
		return []func(context.Context){func(ctx context.Context) {
			var workers sync.WaitGroup
			controller.Run(1, ctx, &workers)
			workers.Wait()
			histories.ShutDownEvents(controller)
		}}, nil
	},
}

var pair = both.Histories(deliberate)

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 300 histories.
func TestHistories(t *testing.T) { pair.Run(t, 3, drawHistory, 10) }

// deliberate lists the allowed differences. A history ends at the first one. Each is documented with
// "Differs:" in our controller.
var deliberate = []histories.Difference[step, *world]{
	// classChanged of modifier.go: upstream leaves a claim pending whose class is created later.
	{Name: "a claim does not wait longer than for its class", Explains: func(d delta, _, _ string) bool {
		return slices.ContainsFunc(d.Upstream, func(line string) bool { return strings.Contains(line, ", Pending to ") }) &&
			slices.ContainsFunc(d.History, func(s step) bool { return strings.Contains(s.String(), "create class ") })
	}},
	// isSettled of modifier.go: upstream begins again if it does not know whether it has begun.
	{Name: "a modification whose begin has no answer is continued", Explains: func(d delta, _, line string) bool {
		last := d.History[len(d.History)-1].Fault
		return last.Kind == sim.FaultLost && last.Request == "patch/status persistentvolumeclaims" && strings.HasPrefix(line, "event ")
	}},
}
