package defaultpreemption

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// broken is a plugin that fails where a node is called broken.
type broken struct{}

func (broken) Name() string { return "test-plugin" }

func (broken) Events() []framework.EventHint { return nil }

func (broken) AddPod(*framework.Cycle, *framework.PodInfo, *framework.NodeInfo) *framework.Status {
	return nil
}

func (broken) RemovePod(cycle *framework.Cycle, _ *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if node.Name() == "broken" {
		return framework.AsStatus(errors.New("failed to remove pod: " + cycle.APIPod().Name))
	}
	return nil
}

// only returns extenders that accept the victims on some nodes.
func only(nodes ...string) func(context.Context, *corev1.Pod, map[string]*extenderv1.Victims, *framework.Snapshot) (map[string]*extenderv1.Victims, error) {
	return func(_ context.Context, _ *corev1.Pod, victims map[string]*extenderv1.Victims, _ *framework.Snapshot) (map[string]*extenderv1.Victims, error) {
		for node := range victims {
			if !slices.Contains(nodes, node) {
				delete(victims, node)
			}
		}
		return victims, nil
	}
}

// Upstream: pkg/scheduler/framework/plugins/defaultpreemption TestPostFilter, TestPreempt (v1.36).
func TestPostFilter(t *testing.T) {
	one := func(names ...string) (nodes []*corev1.Node) {
		for _, name := range names {
			nodes = append(nodes, newNode(name, 1))
		}
		return nodes
	}
	many := func(names ...string) (nodes []*corev1.Node) {
		for _, name := range names {
			nodes = append(nodes, newNode(name, 32))
		}
		return nodes
	}
	unschedulable := func(text string) *framework.Status {
		return framework.NewStatus(framework.Unschedulable, "preemption: "+text)
	}
	for _, test := range []struct {
		name      string
		pod       *corev1.Pod
		pods      []*corev1.Pod
		nodes     []*corev1.Node
		but       []string // nodes that no preemption helps
		change    func(*Config)
		nominated string
		clear     bool
		want      *framework.Status
		preempted []string
	}{
		{
			name: "a higher priority", pod: newPod("p", "", high, 0), pods: []*corev1.Pod{newPod("p1", "node1", low, 0)}, nodes: one("node1"),
			nominated: "node1", preempted: []string{"p1"},
		},
		{
			name: "the same priority", pod: newPod("p", "", low, 0), pods: []*corev1.Pod{newPod("p1", "node1", low, 0)}, nodes: one("node1"),
			clear: true, want: unschedulable("0/1 nodes are available: 1 No preemption victims found for incoming pod."),
		},
		{
			name: "preemption does not help", pod: newPod("p", "", high, 0), pods: []*corev1.Pod{newPod("p1", "node1", low, 0)}, nodes: one("node1"),
			but: []string{"node1"}, clear: true, want: unschedulable("0/1 nodes are available: 1 Preemption is not helpful for scheduling."),
		},
		{
			name: "on one of two nodes", pod: newPod("p", "", mid, 0), nodes: one("node1", "node2"),
			pods: []*corev1.Pod{newPod("p1", "node1", high, 0), newPod("p2", "node2", low, 0)}, nominated: "node2", preempted: []string{"p2"},
		},
		{
			name: "extenders accept one node", pod: newPod("p", "", high, 0), nodes: one("node1", "node2"),
			pods:   []*corev1.Pod{newPod("p1", "node1", mid, 0), newPod("p2", "node2", low, 0)},
			change: func(cfg *Config) { cfg.Extend = only("node1") }, nominated: "node1", preempted: []string{"p1"},
		},
		{
			name: "too large", pod: newPod("p", "", high, veryLarge+1), nodes: many("node1", "node2"),
			pods:  []*corev1.Pod{newPod("p1", "node1", low, 0), newPod("p2", "node2", low, 0)},
			clear: true, want: unschedulable("0/2 nodes are available: 2 Insufficient cpu."),
		},
		{
			name: "no victims, or too large", pod: newPod("p", "", high, veryLarge+1), nodes: append(one("node1", "node3"), many("node2")...),
			pods:  []*corev1.Pod{newPod("p1", "node1", high, 0), newPod("p2", "node2", low, 0), newPod("p3", "node3", high, 0)},
			clear: true, want: unschedulable("0/3 nodes are available: 1 Insufficient cpu, 2 No preemption victims found for incoming pod."),
		},
		{
			name: "not helpful, or too large", pod: newPod("p", "", high, veryLarge+1), nodes: many("node1", "node2", "node3", "node4"),
			pods: []*corev1.Pod{newPod("p1", "node1", low, 0), newPod("p2", "node2", low, 0)}, but: []string{"node3", "node4"},
			clear: true, want: unschedulable("0/4 nodes are available: 2 Insufficient cpu, 2 Preemption is not helpful for scheduling."),
		},
		{
			name: "a plugin fails", pod: newPod("p", "", high, 0), nodes: one("broken"), pods: []*corev1.Pod{newPod("p1", "broken", low, 0)},
			change: func(cfg *Config) { cfg.Changers = []framework.PodChanger{broken{}} },
			want:   framework.AsStatus(errors.New(`preemption: running RemovePod on PreFilter plugin "test-plugin": failed to remove pod: p`)),
		},
		{
			name: "a plugin fails about one of two nodes", pod: newPod("p", "", high, 0), nodes: one("broken", "node2"),
			pods:   []*corev1.Pod{newPod("p1", "broken", low, 0), newPod("p2", "node2", low, 0)},
			change: func(cfg *Config) { cfg.Changers = []framework.PodChanger{broken{}} }, nominated: "node2", preempted: []string{"p2"},
		},
		{
			name: "two victims", pod: newPod("p", "", high, veryLarge), nodes: many("node1", "node2", "node3"),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", low, small), newPod("p1.2", "node1", low, small),
				newPod("p2.1", "node2", high, large), newPod("p3.1", "node3", mid, medium),
			},
			nominated: "node1", preempted: []string{"p1.1", "p1.2"},
		},
		{
			name: "extenders accept the worse node", pod: newPod("p", "", high, veryLarge), nodes: many("node1", "node2", "node3"),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, small), newPod("p1.2", "node1", low, small), newPod("p2.1", "node3", mid, large),
			},
			change: func(cfg *Config) { cfg.Extend = only("node1") }, nominated: "node1", preempted: []string{"p1.1", "p1.2"},
		},
		{
			name: "extenders accept none", pod: newPod("p", "", high, veryLarge), nodes: many("node1", "node2"),
			pods:   []*corev1.Pod{newPod("p1.1", "node1", mid, small), newPod("p2.1", "node2", mid, large)},
			change: func(cfg *Config) { cfg.Extend = only() }, want: unschedulable("no candidate node for preemption"),
		},
		{
			name: "extenders do not matter", pod: newPod("p", "", high, veryLarge), nodes: many("node1", "node2"),
			pods: []*corev1.Pod{
				newPod("p1.1", "node1", mid, small), newPod("p1.2", "node1", low, small), newPod("p2.1", "node2", mid, large),
			},
			change: func(cfg *Config) { cfg.Extend = only("node1", "node2") }, nominated: "node2", preempted: []string{"p2.1"},
		},
		{
			name: "an extender fails", pod: newPod("p", "", high, veryLarge), nodes: many("node1"), pods: []*corev1.Pod{newPod("p1.1", "node1", mid, small)},
			change: func(cfg *Config) {
				cfg.Extend = func(context.Context, *corev1.Pod, map[string]*extenderv1.Victims, *framework.Snapshot) (map[string]*extenderv1.Victims, error) {
					return nil, errors.New("extender preempt error")
				}
			},
			want: framework.AsStatus(errors.New("preemption: extender preempt error")),
		},
		{
			name: "a policy of Never", pod: newPod("p", "", high, veryLarge, never), nodes: many("node1"),
			pods: []*corev1.Pod{newPod("p1.1", "node1", low, small)}, want: unschedulable("not eligible due to preemptionPolicy=Never."),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.change, objects(test.nodes, objects(test.pods, test.pod)...)...)
			nominated, clear, status := w.postFilter("p", w.everywhere(test.but...))
			if nominated != test.nominated || clear != test.clear {
				t.Errorf("node %q, clear %v; want %q, %v", nominated, clear, test.nominated, test.clear)
			}
			if status.CodeOf() != test.want.CodeOf() || status.Message() != test.want.Message() {
				t.Errorf("status %v %q, want %v %q", status.CodeOf(), status.Message(), test.want.CodeOf(), test.want.Message())
			}
			if diff := cmp.Diff(test.preempted, w.preempted(test.pods)); diff != "" {
				t.Errorf("preempted (-want +got):\n%s", diff)
			}
		})
	}
}

// A node with exhausted budgets is chosen only if there is no other; the budgets are listed only if a pod
// could be preempted.
//
// Upstream: pkg/scheduler/framework/plugins/defaultpreemption TestPostFilter (v1.36).
func TestBudgets(t *testing.T) {
	violating, allowing := newBudget("violating", 0), newBudget("allowing", 1000)
	nodes := []*corev1.Node{newNode("node1", 1), newNode("node2", 1)}
	pods := []*corev1.Pod{
		newPod("p1", "node1", high, 0, labelled("allowing")), newPod("p2", "node1", low, 0, labelled("violating")),
		newPod("p3", "node2", mid, 0, labelled("violating")),
	}
	w := newWorld(t, nil, objects(nodes, objects(pods, newPod("p", "", veryHigh, 0), violating, allowing)...)...)
	if nominated, _, _ := w.postFilter("p", w.everywhere()); nominated != "node2" {
		t.Errorf("node %q, want node2", nominated)
	}
	w = newWorld(t, nil, objects(nodes, newPod("a", "node1", low, 0), newPod("b", "node2", mid, 0, labelled("violating")), newPod("p", "", veryHigh, 0), violating)...)
	if nominated, _, _ := w.postFilter("p", w.everywhere("node1")); nominated != "node2" {
		t.Errorf("node %q, want node2: there is no other", nominated)
	}
	w = newWorld(t, nil, objects(nodes, newPod("a", "node1", low, 0), newPod("p", "", low, 0), violating)...)
	before := w.Host.Log().Len()
	w.postFilter("p", w.everywhere())
	if more := w.Host.Log().Records()[before:]; len(more) > 0 {
		t.Errorf("records of a pod that could preempt nothing: %v", more)
	}
}

// Upstream: pkg/scheduler/framework/plugins/defaultpreemption TestPodEligibleToPreemptOthers (v1.36).
func TestEligible(t *testing.T) {
	node := newNode("node1", 32)
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		pods []*corev1.Pod
		but  []string
		want string
	}{
		{
			name: "its nominated node will not do", pod: newPod("p", "", high, 0, nominatedTo("node1")),
			pods: []*corev1.Pod{newPod("p1", "node1", low, 0, terminating(true))}, but: []string{"node1"},
		},
		{name: "no nominated node", pod: newPod("p", "", high, 0)},
		{name: "a policy of Never", pod: newPod("p", "", high, 0, never), want: "not eligible due to preemptionPolicy=Never."},
		{
			name: "a victim is terminating", pod: newPod("p", "", high, 0, nominatedTo("node1")),
			pods: []*corev1.Pod{newPod("p1", "node1", low, 0, terminating(true))}, want: "not eligible due to a terminating pod on the nominated node.",
		},
		{
			name: "another pod is terminating", pod: newPod("p", "", high, 0, nominatedTo("node1")),
			pods: []*corev1.Pod{newPod("p1", "node1", low, 0, terminating(false))},
		},
		{
			name: "a more important pod is terminating", pod: newPod("p", "", mid, 0, nominatedTo("node1")),
			pods: []*corev1.Pod{newPod("p1", "node1", high, 0, terminating(true))},
		},
		{name: "the nominated node is gone", pod: newPod("p", "", high, 0, nominatedTo("node9"))},
	} {
		d := &framework.Diagnosis{NodesMax: 1, Others: unresolvable}
		if test.but == nil {
			d.Others = framework.NewStatus(framework.Unschedulable)
		}
		if got := ineligible(test.pod, framework.NewSnapshot([]*corev1.Node{node}, test.pods), d); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestEnough(t *testing.T) {
	w := newWorld(t, nil)
	for nodes, want := range map[int]int{3: 3, 100: 100, 500: 100, 5000: 500} {
		if got := w.candidatesMax(nodes); got != want {
			t.Errorf("%d candidates of %d nodes, want %d", got, nodes, want)
		}
	}
}
