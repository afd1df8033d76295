package rowtest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A Constructor returns the plugin of a row.
type Constructor func(t *testing.T, row *Row) (framework.Plugin, error)

// WithoutArgs returns a constructor of plugins that have no arguments.
func WithoutArgs[P framework.Plugin](construct func(h framework.Handle) P) Constructor {
	return func(t *testing.T, row *Row) (framework.Plugin, error) {
		t.Helper()
		return construct(row.handle(t)), nil
	}
}

// WithArgs returns a constructor of plugins that have arguments.
func WithArgs[A any, P framework.Plugin](construct func(h framework.Handle, args *A) (P, error)) Constructor {
	return func(t *testing.T, row *Row) (framework.Plugin, error) {
		t.Helper()
		var args A
		row.parseArgs(t, &args)
		return construct(row.handle(t), &args)
	}
}

// Run runs the rows of a file of the folder testdata.
func Run(t *testing.T, file string, construct Constructor) {
	t.Helper()
	for _, row := range read(t, file) {
		t.Run(row.Name, func(t *testing.T) {
			plugin, err := construct(t, row)
			if row.err != "" || err != nil {
				if err == nil || err.Error() != row.err {
					t.Errorf("error: got %v, want %q", err, row.err)
				}
				return
			}
			if row.hint != "" {
				row.checkHint(t, plugin)
				return
			}
			info, _ := framework.NewPodInfo(row.pod)
			cycle := framework.NewCycle(info, framework.NewSnapshot(row.nodes, row.pods))
			if row.preFilter != "" || row.filters != nil {
				row.checkFilter(t, plugin, cycle)
			}
			if row.preScore != "" || row.scores != nil {
				row.checkScore(t, plugin, cycle)
			}
		})
	}
}

func (r *Row) checkHint(t *testing.T, plugin framework.Plugin) {
	t.Helper()
	got := "skip"
	for _, hint := range plugin.Events() {
		if hint.Resource == r.of && hint.Hint != nil && hint.Hint(r.pod, r.old, r.new) {
			got = "queue"
		}
	}
	if got != r.hint {
		t.Errorf("hint: got %s, want %s", got, r.hint)
	}
}

func (r *Row) checkFilter(t *testing.T, plugin framework.Plugin, cycle *framework.Cycle) {
	t.Helper()
	if f, ok := plugin.(framework.PreFilterer); ok {
		names, status := f.PreFilter(cycle)
		if got := strings.Join(sets.List(names), " "); got != r.names {
			t.Errorf("names of nodes: got %q, want %q", got, r.names)
		}
		if want := r.preFilter; text(status) != want && (want != "" || status != nil) {
			t.Errorf("PreFilter: got %s, want %s", text(status), want)
		}
		if status != nil {
			return
		}
	}
	if r.changes != nil {
		before := cycle
		cycle = r.change(t, plugin.(framework.PodChanger), cycle)
		defer func() { r.checkUndone(t, plugin, before) }()
	}
	for _, filter := range r.filters {
		if got := text(plugin.(framework.Filterer).Filter(cycle, r.find(t, cycle, filter.node))); got != filter.want {
			t.Errorf("Filter of %s: got %s, want %s", filter.node, got, filter.want)
		}
	}
}

// change returns the cycle after the changes of pods.
func (r *Row) change(t *testing.T, plugin framework.PodChanger, cycle *framework.Cycle) *framework.Cycle {
	t.Helper()
	cycle = cycle.Clone()
	for _, c := range r.changes {
		info, err := framework.NewPodInfo(c.pod)
		if err != nil {
			t.Fatal(err)
		}
		apply := plugin.AddPod
		if !c.adds {
			apply = plugin.RemovePod
		}
		if status := apply(cycle, info, r.find(t, cycle, c.pod.Spec.NodeName)); status != nil {
			t.Errorf("change of %s: %s", c.pod.Name, text(status))
		}
	}
	return cycle
}

// checkUndone checks that changes of a copy do not change the cycle.
func (r *Row) checkUndone(t *testing.T, plugin framework.Plugin, cycle *framework.Cycle) {
	t.Helper()
	fresh := framework.NewCycle(cycle.Pod, cycle.Snapshot)
	plugin.(framework.PreFilterer).PreFilter(fresh)
	for _, node := range cycle.Snapshot.Nodes() {
		f := plugin.(framework.Filterer)
		if got, want := text(f.Filter(cycle, node)), text(f.Filter(fresh, node)); got != want {
			t.Errorf("Filter of %s after changes of a copy: got %s, want %s", node.Name(), got, want)
		}
	}
}

func (r *Row) checkScore(t *testing.T, plugin framework.Plugin, cycle *framework.Cycle) {
	t.Helper()
	f := plugin.(framework.Scorer)
	var nodes []*framework.NodeInfo
	for _, score := range r.scores {
		nodes = append(nodes, r.find(t, cycle, score.node))
	}
	if len(nodes) == 0 {
		nodes = cycle.Snapshot.Nodes()
	}
	status := f.PreScore(cycle, nodes)
	if want := r.preScore; text(status) != want && (want != "" || status != nil) {
		t.Errorf("PreScore: got %s, want %s", text(status), want)
	}
	if status != nil {
		return
	}
	var got []int64
	for _, node := range nodes {
		score, status := f.Score(cycle, node)
		if status != nil {
			t.Fatalf("Score of %s: %s", node.Name(), text(status))
		}
		got = append(got, score)
	}
	if status := f.Normalize(cycle, got); status != nil {
		t.Fatalf("Normalize: %s", text(status))
	}
	var want []int64
	for _, score := range r.scores {
		n, err := strconv.ParseInt(score.want, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, n)
	}
	if !slices.Equal(got, want) {
		t.Errorf("scores: got %v, want %v", got, want)
	}
}

func (r *Row) find(t *testing.T, cycle *framework.Cycle, name string) *framework.NodeInfo {
	t.Helper()
	if info := cycle.Snapshot.Node(name); info != nil {
		return info
	}
	t.Fatalf("row %s: no node %q", r.Name, name)
	return nil
}

// text returns a status as the files have it.
func text(status *framework.Status) string {
	code := map[framework.Code]string{
		framework.Success: "ok", framework.Skip: "skip", framework.Error: "Error: ", framework.Unschedulable: "Unschedulable: ",
		framework.UnschedulableAndUnresolvable: "UnschedulableAndUnresolvable: ",
	}[status.CodeOf()]
	if status == nil {
		return code
	}
	return code + strings.Join(status.Reasons, "; ")
}

// add adds an object to the cache of its informer.
func add(t *testing.T, factory informers.SharedInformerFactory, o object) error {
	switch o.kind {
	case "namespace":
		return factory.Core().V1().Namespaces().Informer().GetIndexer().Add(parse[corev1.Namespace](t, o.text))
	case "service":
		return factory.Core().V1().Services().Informer().GetIndexer().Add(parse[corev1.Service](t, o.text))
	case "replicationcontroller":
		return factory.Core().V1().ReplicationControllers().Informer().GetIndexer().Add(parse[corev1.ReplicationController](t, o.text))
	case "replicaset":
		return factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(parse[appsv1.ReplicaSet](t, o.text))
	default:
		return factory.Apps().V1().StatefulSets().Informer().GetIndexer().Add(parse[appsv1.StatefulSet](t, o.text))
	}
}
