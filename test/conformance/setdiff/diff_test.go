package setdiff

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	upstream "k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/statefulset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

// both are our controller and upstream's.
var both = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: 16,
	Ours: []controllers.Controller{
		{Name: "statefulset", Source: statefulset.EventSource, New: func(process *sim.Process, client *fake.Clientset,
			informers informers.SharedInformerFactory, recorder record.EventRecorder,
		) {
			statefulset.New(statefulset.Config{Process: process, Client: client, Informers: informers, Recorder: recorder})
		}},
	},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		apps, core := informers.Apps().V1(), informers.Core().V1()
		controller := upstream.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(),
			apps.ControllerRevisions(), client)
		return []func(context.Context){func(ctx context.Context) { controller.Run(ctx, 1) }}, nil
	},
}

var pair = both.Histories(deliberate)

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 500 histories.
func TestHistories(t *testing.T) { pair.Run(t, 5, drawHistory, 10) }

// deliberate lists the allowed differences. A history ends at the first one. Each is documented with
// "Differs:" in our controller.
var deliberate = []histories.Difference[step, *world]{
	// create of do.go: upstream tries again after a back-off, which may be longer than a step, and
	// meanwhile notices other changes.
	{Name: "a stranger with the name of a pod is waited for", Explains: func(d delta, _, _ string) bool {
		stranger, _ := d.OurWorld.happened()
		return stranger
	}},
	// addClaims of decide.go: upstream updates each new claim, and reports that if it fails.
	{Name: "a claim has its owner from its creation", Explains: func(d delta, _, line string) bool {
		return strings.HasPrefix(line, "event ") && slices.ContainsFunc(d.History, func(s step) bool {
			return s.Fault.Request == "update persistentvolumeclaims"
		})
	}},
	// replica of decide.go: upstream may write a pod of a parallel set again after it has created it.
	{Name: "a pod is not written again after its creation", Explains: func(d delta, _, line string) bool {
		return strings.Contains(line, "Update Pod web-") && slices.Contains(d.Upstream, line) &&
			strings.Contains(d.History.String(), "parallel")
	}},
	// sync of controller.go: upstream treats all revisions as unused if it could not determine the set's.
	{Name: "no revision is deleted while the update revision is unknown", Explains: func(d delta, _, line string) bool {
		_, upstream := d.UpstreamWorld.happened()
		_, ours := d.OurWorld.happened()
		return upstream && !ours && !strings.HasPrefix(line, "pods ")
	}},
}

// TestUpstreamDeletesRevisionsInUse: a rollback conflicts, because the cache lags. Upstream then deletes
// all revisions that no pod has.
func TestUpstreamDeletesRevisionsInUse(t *testing.T) {
	edit := func(text string, edit func(*appsv1.StatefulSetSpec)) change { return change{text, edit} }
	image := func(n string) change {
		return edit("image "+n, func(s *appsv1.StatefulSetSpec) { s.Template.Spec.Containers[0].Image = "image:" + n })
	}
	h := history{
		{Act: createSet{[]change{image("2")}}},
		{Act: editSet{[]change{edit("replicas 0", func(s *appsv1.StatefulSetSpec) { s.Replicas = ptr.To[int32](0) }), image("0")}}},
		{Act: ignorePod{"web-0", false}},
		{Act: editSet{[]change{edit("no history", func(s *appsv1.StatefulSetSpec) { s.RevisionHistoryLimit = ptr.To[int32](0) }), image("2")}}},
	}
	for range 20 {
		if _, lost := both.RunUpstream(t, h, nil).World.happened(); lost {
			if _, lost := both.RunOurs(h, nil, nil).World.happened(); lost {
				t.Error("ours deletes them, too")
			}
			return
		}
	}
	t.Error("upstream does not")
}
