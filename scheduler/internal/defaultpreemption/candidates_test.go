package defaultpreemption

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// spread is a plugin with a state: how many pods are on the nodes of each zone. A zone may have one pod
// more than another.
type spread struct{}

type counts map[string]int

func (c counts) Clone() any {
	clone := counts{}
	for zone, n := range c {
		clone[zone] = n
	}
	return clone
}

// zoneOf is the first letter of a node's name.
func zoneOf(node *framework.NodeInfo) string { return node.Name()[:1] }

func (spread) Name() string { return "spread" }

func (spread) Events() []framework.EventHint { return nil }

func (spread) AddPod(cycle *framework.Cycle, _ *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	cycle.Read("spread").(counts)[zoneOf(node)]++
	return nil
}

func (spread) RemovePod(cycle *framework.Cycle, _ *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	cycle.Read("spread").(counts)[zoneOf(node)]--
	return nil
}

func (spread) filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	state := cycle.Read("spread").(counts)
	zone := state[zoneOf(node)] + 1
	for _, n := range state {
		if zone > n+1 {
			return framework.NewStatus(framework.Unschedulable, "node(s) didn't match pod topology spread constraints")
		}
	}
	return nil
}

// Upstream: pkg/scheduler/framework/plugins/defaultpreemption TestDryRunPreemption,
// pkg/scheduler/framework/preemption TestDryRunPreemption (v1.36).
func TestDryRun(t *testing.T) {
	always := func(status *framework.Status) func(*framework.Cycle, *framework.NodeInfo) *framework.Status {
		return func(*framework.Cycle, *framework.NodeInfo) *framework.Status { return status }
	}
	others := func(node *framework.NodeInfo) (anti bool) {
		return slices.ContainsFunc(node.Pods, func(p *framework.PodInfo) bool { return p.Pod.Labels["app"] == "anti" })
	}
	five := func(priorities ...int32) (pods []*corev1.Pod) {
		for i, name := range []string{"1", "2", "3", "4", "5"} {
			pods = append(pods, newPod("p"+name, "node"+name, priorities[i], large))
		}
		return pods
	}
	ofBudget := func(names ...string) (pods []*corev1.Pod) {
		for _, name := range names {
			pods = append(pods, newPod(name, "node1", mid, medium, labelled("foo")))
		}
		return pods
	}
	for _, test := range []struct {
		name     string
		filter   func(*framework.Cycle, *framework.NodeInfo) *framework.Status
		nodes    string
		pod      *corev1.Pod
		pods     []*corev1.Pod
		budgets  []policyv1.PodDisruptionBudget
		change   func(*Config)
		want     []string
		filtered int
	}{
		{
			name: "it fits nowhere", filter: always(framework.NewStatus(framework.Unschedulable, "no")), nodes: "node1 node2", pod: newPod("p", "", high, 0),
			pods: []*corev1.Pod{newPod("p1", "node1", mid, 0), newPod("p2", "node2", mid, 0)}, filtered: 2,
		},
		{
			name: "no pod has to go", filter: always(nil), nodes: "node1 node2", pod: newPod("p", "", high, 0),
			pods: []*corev1.Pod{newPod("p1", "node1", mid, 0), newPod("p2", "node2", mid, 0)}, filtered: 4,
		},
		{
			name: "a victim on each node", nodes: "node1 node2", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{newPod("p1", "node1", mid, large), newPod("p2", "node2", mid, large)},
			want: []string{"node1: p1", "node2: p2"}, filtered: 4,
		},
		{
			name: "the others are more important", nodes: "node1 node2", pod: newPod("p", "", low, large),
			pods: []*corev1.Pod{newPod("p1", "node1", mid, large), newPod("p2", "node2", mid, large)},
		},
		{
			name: "a small pod stays", nodes: "node1 node2", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", low, small), newPod("p1.2", "node1", mid, large), newPod("p2", "node2", mid, large),
			},
			want: []string{"node1: p1.2", "node2: p2"}, filtered: 5,
		},
		{
			name: "mixed priorities", nodes: "node1 node2", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, small), newPod("p1.2", "node1", low, small), newPod("p1.3", "node1", mid, medium),
				newPod("p1.4", "node1", high, small), newPod("p2", "node2", high, large),
			},
			want: []string{"node1: p1.3 p1.2"}, filtered: 4,
		},
		{
			name: "the younger of two goes", nodes: "node1 node2", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", low, small, started(5)), newPod("p1.2", "node1", low, small, started(4)),
				newPod("p1.3", "node1", mid, medium, started(3)), newPod("p1.4", "node1", high, small, started(2)),
				newPod("p2", "node2", high, large, started(1)),
			},
			want: []string{"node1: p1.3 p1.1"}, filtered: 4,
		},
		{
			name: "one that has not started is the youngest", nodes: "node1", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{newPod("a", "node1", low, medium), newPod("b", "node1", low, medium, started(-1))},
			want: []string{"node1: a"}, filtered: 3,
		},
		{
			name: "anti-affinity",
			filter: func(_ *framework.Cycle, node *framework.NodeInfo) *framework.Status {
				if others(node) {
					return framework.NewStatus(framework.Unschedulable, "node(s) didn't satisfy existing pods anti-affinity rules")
				}
				return nil
			},
			nodes: "node1 node2", pod: newPod("p", "", high, small),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", low, small, labelled("anti")), newPod("p1.2", "node1", mid, small),
				newPod("p1.3", "node1", high, small), newPod("p2", "node2", high, small),
			},
			want: []string{"node1: p1.1"}, filtered: 3,
		},
		{
			name:   "topology spread",
			filter: spread{}.filter, change: func(cfg *Config) { cfg.Changers = []framework.PodChanger{spread{}} },
			nodes: "a1 a2 x", pod: newPod("p", "", high, 0),
			pods: []*corev1.Pod{
				newPod("p1", "a1", mid, 0), newPod("p2", "a1", low, 0), newPod("p3", "a2", low, 0),
				newPod("p4", "x", high, 0), newPod("p5", "x", high, 0),
			},
			want: []string{"a1: p2", "a2: p3"}, filtered: 5,
		},
		{
			name: "a budget for one", nodes: "node1", pod: newPod("p", "", high, veryLarge),
			pods:    ofBudget("p1.1", "p1.2"),
			budgets: []policyv1.PodDisruptionBudget{*newBudget("foo", 1)}, want: []string{"node1: p1.2 p1.1 (1)"}, filtered: 3,
		},
		{
			name: "another pod is counted already", nodes: "node1", pod: newPod("p", "", high, veryLarge),
			pods:    ofBudget("p1.1", "p1.2"),
			budgets: []policyv1.PodDisruptionBudget{*newBudget("foo", 1, "p2")}, want: []string{"node1: p1.2 p1.1 (1)"}, filtered: 3,
		},
		{
			name: "a victim is counted already", nodes: "node1", pod: newPod("p", "", high, veryLarge),
			pods:    ofBudget("p1.1", "p1.2"),
			budgets: []policyv1.PodDisruptionBudget{*newBudget("foo", 1, "p1.2")}, want: []string{"node1: p1.1 p1.2"}, filtered: 3,
		},
		{
			name: "one of three victims is counted already", nodes: "node1", pod: newPod("p", "", high, veryLarge),
			pods:    ofBudget("p1.1", "p1.2", "p1.3"),
			budgets: []policyv1.PodDisruptionBudget{*newBudget("foo", 1, "p1.3")}, want: []string{"node1: p1.2 p1.1 p1.3 (1)"}, filtered: 4,
		},
		{
			name: "one with a budget stays before one without", nodes: "node1", pod: newPod("p", "", high, large),
			pods:    []*corev1.Pod{newPod("p1.1", "node1", mid, medium), newPod("p1.2", "node1", low, medium, labelled("foo"))},
			budgets: []policyv1.PodDisruptionBudget{*newBudget("foo", 0)}, want: []string{"node1: p1.1"}, filtered: 3,
		},
		{
			name: "two of five are enough", nodes: "node1 node2 node3 node4 node5", pod: newPod("p", "", high, large),
			pods:   five(mid, mid, mid, mid, mid),
			change: func(cfg *Config) { cfg.MinCandidateNodesPercentage, cfg.MinCandidateNodesAbsolute = 40, 1 },
			want:   []string{"node1: p1", "node2: p2"}, filtered: 4,
		},
		{
			name: "two of five are enough, some are none", nodes: "node1 node2 node3 node4 node5", pod: newPod("p", "", high, large),
			pods:   five(mid, veryHigh, mid, mid, veryHigh),
			change: func(cfg *Config) { cfg.MinCandidateNodesPercentage, cfg.MinCandidateNodesAbsolute = 40, 1 },
			want:   []string{"node1: p1", "node3: p3"}, filtered: 4,
		},
		{
			name: "until one violates no budget", nodes: "node1 node2 node3 node4 node5", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{
				newPod("p1", "node1", mid, large, labelled("foo")), newPod("p2", "node2", mid, large, labelled("foo")),
				newPod("p3", "node3", mid, large, labelled("foo")), newPod("p4", "node4", mid, large), newPod("p5", "node5", mid, large),
			},
			budgets: []policyv1.PodDisruptionBudget{*newBudget("foo", 0)},
			change:  func(cfg *Config) { cfg.MinCandidateNodesPercentage, cfg.MinCandidateNodesAbsolute = 40, 2 },
			want:    []string{"node4: p4", "node1: p1 (1)", "node2: p2 (1)"}, filtered: 8,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.change, objects(test.pods, append(nodesNamed(test.nodes), test.pod)...)...)
			if test.filter != nil {
				w.cfg.Filter = func(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
					w.filtered++
					return test.filter(cycle, node)
				}
			}
			cycle := w.cycle("p")
			state := counts{}
			for _, node := range cycle.Snapshot.Nodes() {
				state[zoneOf(node)] += len(node.Pods)
			}
			cycle.Write("spread", state)
			found, _, err := w.dryRun(cycle, w.pod("p"), cycle.Snapshot.Nodes(), test.budgets)
			if err != nil && test.name != "no pod has to go" {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, textOf(found)); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
			if w.filtered != test.filtered {
				t.Errorf("%d nodes were looked at, want %d", w.filtered, test.filtered)
			}
		})
	}
}

// Upstream: pkg/scheduler/framework/plugins/defaultpreemption TestSelectBestCandidate (v1.36).
func TestChoose(t *testing.T) {
	at := started(100)
	for _, test := range []struct {
		name  string
		nodes string
		pod   *corev1.Pod
		pods  []*corev1.Pod
		want  string
	}{
		{
			name: "equal nodes", nodes: "node1 node2", pod: newPod("p", "", high, large),
			pods: []*corev1.Pod{newPod("p1", "node1", mid, large, at), newPod("p2", "node2", mid, large, at)}, want: "node1",
		},
		{
			name: "the lowest highest priority", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, medium, at), newPod("p1.2", "node1", mid, large, at),
				newPod("p2.1", "node2", mid, medium, at), newPod("p2.2", "node2", low, medium, at),
				newPod("p3.1", "node3", low, medium, at), newPod("p3.2", "node3", low, medium, at),
			},
			want: "node3",
		},
		{
			name: "the lowest sum", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, medium, at), newPod("p1.2", "node1", mid, large, at),
				newPod("p2.1", "node2", mid, large, at), newPod("p2.2", "node2", low, medium, at),
				newPod("p3.1", "node3", mid, medium, at), newPod("p3.2", "node3", mid, medium, at),
			},
			want: "node2",
		},
		{
			name: "the fewest pods", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, small, at), newPod("p1.2", "node1", negative, small, at),
				newPod("p1.3", "node1", mid, small, at), newPod("p1.4", "node1", negative, small, at),
				newPod("p2.1", "node2", mid, large, at), newPod("p2.2", "node2", negative, medium, at),
				newPod("p3.1", "node3", mid, medium, at), newPod("p3.2", "node3", negative, small, at), newPod("p3.3", "node3", low, small, at),
			},
			want: "node2",
		},
		{
			name: "a sum of negative priorities", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, small, at), newPod("p1.2", "node1", negative, small, at), newPod("p1.3", "node1", negative, small, at),
				newPod("p2.1", "node2", mid, large, at), newPod("p2.2", "node2", negative, medium, at),
				newPod("p3.1", "node3", mid, medium, at), newPod("p3.2", "node3", negative, small, at), newPod("p3.3", "node3", low, small, at),
			},
			want: "node2",
		},
		{
			name: "one criterion after the other", nodes: "node1 node2 node3 node4", pod: newPod("p", "", veryHigh, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, small, at), newPod("p1.2", "node1", low, small, at), newPod("p1.3", "node1", low, small, at),
				newPod("p2.1", "node2", high, large, at),
				newPod("p3.1", "node3", mid, medium, at), newPod("p3.2", "node3", low, small, at),
				newPod("p3.3", "node3", low, small, at), newPod("p3.4", "node3", low, medium, at),
				newPod("p4.1", "node4", mid, medium, at), newPod("p4.2", "node4", mid, small, at),
				newPod("p4.3", "node4", mid, small, at), newPod("p4.4", "node4", negative, small, at),
			},
			want: "node1",
		},
		{
			name: "the latest start", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, medium, started(2)), newPod("p1.2", "node1", mid, medium, started(2)),
				newPod("p2.1", "node2", mid, medium, started(3)), newPod("p2.2", "node2", mid, medium, started(3)),
				newPod("p3.1", "node3", mid, medium, started(1)), newPod("p3.2", "node3", mid, medium, started(1)),
			},
			want: "node2",
		},
		{
			name: "the latest start of the oldest", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, medium, started(4)), newPod("p1.2", "node1", mid, medium, started(2)),
				newPod("p2.1", "node2", mid, medium, started(5)), newPod("p2.2", "node2", mid, medium, started(1)),
				newPod("p3.1", "node3", mid, medium, started(3)), newPod("p3.2", "node3", mid, medium, started(6)),
			},
			want: "node3",
		},
		{
			name: "the latest start of the most important", nodes: "node1 node2 node3", pod: newPod("p", "", high, veryLarge),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", low, medium, started(4)), newPod("p1.2", "node1", mid, medium, started(2)),
				newPod("p2.1", "node2", mid, medium, started(6)), newPod("p2.2", "node2", low, medium, started(1)),
				newPod("p3.1", "node3", low, medium, started(3)), newPod("p3.2", "node3", mid, medium, started(5)),
			},
			want: "node2",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil, objects(test.pods, append(nodesNamed(test.nodes), test.pod)...)...)
			cycle := w.cycle("p")
			found, _, err := w.dryRun(cycle, w.pod("p"), cycle.Snapshot.Nodes(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := choose(found, w.Host.Now()).node; got != test.want {
				t.Errorf("%s of %q, want %s", got, textOf(found), test.want)
			}
		})
	}
}

// Upstream: pkg/scheduler/framework/preemption TestFilterVictimsWithPDBViolation (v1.36).
func TestByBudget(t *testing.T) {
	empty := newBudget("foo", 0)
	empty.Spec.Selector.MatchLabels = nil
	invalid := newBudget("foo", 0)
	invalid.Spec.Selector.MatchLabels = map[string]string{"app": "not a value"}
	elsewhere := newBudget("foo", 0)
	elsewhere.Namespace = "another"
	for _, test := range []struct {
		name    string
		labels  []string // of pods a, b, …; "": no label
		budgets []*policyv1.PodDisruptionBudget
		want    []string // with an exhausted budget
	}{
		{"nothing", nil, nil, nil},
		{"no budget of the pod", []string{"bar"}, []*policyv1.PodDisruptionBudget{newBudget("foo", 0)}, nil},
		{"allowed", []string{"foo"}, []*policyv1.PodDisruptionBudget{newBudget("foo", 1)}, nil},
		{"not allowed", []string{"foo"}, []*policyv1.PodDisruptionBudget{newBudget("foo", 0)}, []string{"a"}},
		{"two pods of a budget", []string{"foo", "foo"}, []*policyv1.PodDisruptionBudget{newBudget("foo", 1)}, []string{"b"}},
		{"counted already", []string{"foo"}, []*policyv1.PodDisruptionBudget{newBudget("foo", 0, "a")}, nil},
		{"an empty selector", []string{"foo"}, []*policyv1.PodDisruptionBudget{empty}, nil},
		{"an invalid selector", []string{"foo"}, []*policyv1.PodDisruptionBudget{invalid}, nil},
		{"of another namespace", []string{"foo"}, []*policyv1.PodDisruptionBudget{elsewhere}, nil},
		{"no labels", []string{""}, []*policyv1.PodDisruptionBudget{newBudget("foo", 0)}, nil},
		{
			"two budgets",
			[]string{"foo", "bar"},
			[]*policyv1.PodDisruptionBudget{newBudget("foo", 1), newBudget("bar", 0)},
			[]string{"b"},
		},
		{
			"two budgets of a pod",
			[]string{"foo", "foo"},
			[]*policyv1.PodDisruptionBudget{newBudget("foo", 2), newBudget("foo", 1)},
			[]string{"b"},
		},
	} {
		var pods []*framework.PodInfo
		for i, label := range test.labels {
			pod := newPod(string(rune('a'+i)), "node1", low, 0)
			if label != "" {
				labelled(label)(pod)
			}
			pods = append(pods, &framework.PodInfo{Pod: pod})
		}
		var budgets []policyv1.PodDisruptionBudget
		for _, budget := range test.budgets {
			budgets = append(budgets, *budget)
		}
		exhausted, others := byBudget(pods, budgets)
		var got []string
		for _, info := range exhausted {
			got = append(got, info.Pod.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || len(exhausted)+len(others) != len(pods) {
			t.Errorf("%s: (-want +got):\n%s", test.name, diff)
		}
	}
}
