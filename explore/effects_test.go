package explore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestEffectsFollowFromWhatAProcessKnows makes each local step from each state, and compares its effect with
// the one that it had when the process knew the same before.
func TestEffectsFollowFromWhatAProcessKnows(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range blockWorlds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := beginSearch(t, tt.name, "ends: differ\n"+tt.text, Config{Strategy: Exhaustive, Count: 100_000, Restarts: tt.restarts})
			kinds := []mishap{noMishap}
			if tt.restarts {
				kinds = append(kinds, faultOrCrash)
			}
			for _, kind := range kinds {
				o, compared := newOrders(e, kind), 0
				o.compare = func(known, made effect) {
					compared++
					if known.then != made.then || !slices.Equal(sortedSteps(known.own), sortedSteps(made.own)) ||
						!slices.Equal(o.memoryOf(known), o.memoryOf(made)) {
						t.Errorf("%v, earlier %v", made, known)
					}
				}
				if err := o.all(); err != nil || e.report.Failure != nil {
					t.Fatal(err, e.report.Failure)
				}
				t.Logf("%d schedules, %d effects, %d compared", e.report.Schedules, len(o.effects), compared)
				if compared == 0 && kind == noMishap && !strings.Contains(tt.text, "let ") { // effects are not used after an event
					t.Error("no effects are compared")
				}
			}
		})
	}
}

// memoryOf returns what a step uses of the memory of its process. A delivery also reads a version of an
// object, of which two with one content may be taken for each other: nothing else uses either from then on.
func (o *orders) memoryOf(e effect) footprint {
	outside := map[uint32]bool{}
	for p, n := range o.parts.numbers {
		outside[n] = p.process == ""
	}
	return slices.DeleteFunc(slices.Clone(e.uses), func(u use) bool { return outside[u.part] })
}

func sortedSteps(steps []stepID) []stepID {
	return slices.SortedFunc(slices.Values(steps), func(a, b stepID) int {
		return cmp.Or(cmp.Compare(a.task, b.task), a.which-b.which, cmp.Compare(a.fault, b.fault))
	})
}

// counter makes a request each second time that the ConfigMap m has changed. It says that it remembers nothing.
func counter() cluster.Component {
	return cluster.Component{Name: "counter", Start: func(p cluster.ComponentContext) error {
		informer := p.Informers.Core().V1().ConfigMaps()
		p.Process.GateWorkers(informer.Informer().HasSynced)
		changes := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "count"})
		p.Process.HandlersEnqueue()
		p.Process.Remembers(nil)
		n := 0
		changes.Work(func(ctx context.Context, _ string) (err error) {
			if n++; n%2 == 0 {
				_, err = p.Client.CoreV1().ConfigMaps("default").Get(ctx, "m", metav1.GetOptions{})
			}
			return err
		})
		_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(any, any) { changes.Add("m") },
		})
		return err
	}}
}

// TestIncompleteMemoryIsReported searches all orders of events of a component that remembers more than it says.
func TestIncompleteMemoryIsReported(t *testing.T) {
	testcheck.Stepped(t)
	toggle := func(ctx context.Context, c *cluster.Cluster) error {
		maps := c.Client().CoreV1().ConfigMaps("default")
		m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
		for i := range 4 {
			if err != nil {
				return err
			}
			m.Data = map[string]string{"a": strconv.Itoa(i % 2)}
			m, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		}
		return err
	}
	s := &scenario.Scenario{
		Name: "counter", Components: []string{}, Extra: []cluster.Component{counter()}, Rules: []string{}, OutcomesDiffer: true,
		Users: []scenario.User{{Name: "alice", Script: toggle}},
	}
	e, err := newSearch(t.Context(), s, Config{Strategy: Exhaustive})
	if err != nil {
		t.Fatal(err)
	}
	o := newOrders(e, noMishap)
	o.blocks = true // a script looks into no cache
	if err := o.all(); err == nil || !strings.Contains(err.Error(), "does not say all that it remembers (sim.Process.Remembers)") {
		t.Errorf("%d schedules, %v", e.report.Schedules, err)
	}
}
