package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// standIn is a plugin with answers by node. A nil map is no answer.
type standIn struct {
	name      string
	pod       *framework.Status // to PreFilter
	only      []string          // the nodes that PreFilter names
	nodes     map[string]*framework.Status
	scores    map[string]int64
	podsTwice bool // it rejects nodes with two pods, in its state or on the node
}

func (p *standIn) Name() string                  { return p.name }
func (p *standIn) Events() []framework.EventHint { return nil }

func (p *standIn) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	cycle.Write(p.name, counted{})
	if p.only != nil {
		return sets.New(p.only...), p.pod
	}
	return nil, p.pod
}

// counted is the number of pods that came to a node in a supposition.
type counted map[string]int

func (c counted) Clone() any {
	clone := counted{}
	for node, n := range c {
		clone[node] = n
	}
	return clone
}

func (p *standIn) AddPod(cycle *framework.Cycle, _ *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	cycle.Read(p.name).(counted)[node.Name()]++
	return nil
}

func (p *standIn) RemovePod(*framework.Cycle, *framework.PodInfo, *framework.NodeInfo) *framework.Status {
	return nil
}

func (p *standIn) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if n := cycle.Read(p.name).(counted)[node.Name()]; p.podsTwice && n > 0 {
		if n != len(node.Pods) {
			panic(fmt.Sprintf("%d pods in the state, %d on the node", n, len(node.Pods)))
		}
		return framework.NewStatus(framework.Unschedulable, "another pod has the room")
	}
	return p.nodes[node.Name()]
}

func (p *standIn) PreScore(*framework.Cycle, []*framework.NodeInfo) *framework.Status {
	if p.scores == nil {
		return framework.SkipCycle
	}
	return nil
}

func (p *standIn) Score(_ *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	if score := p.scores[node.Name()]; score >= 0 {
		return score, nil
	}
	return 0, framework.AsStatus(errors.New("no score"))
}

func (p *standIn) Normalize(*framework.Cycle, []int64) *framework.Status { return nil }

// newDecider returns a profile with plugins, and the cycle of a pod on nodes.
func newDecider(plugins []*standIn, nodes ...string) (*profile, *framework.Cycle) {
	c := &profile{Controller: &Controller{cache: framework.NewCache(), nominated: newNominations()}}
	for i, p := range plugins {
		c.plugins.preFilters = append(c.plugins.preFilters, p)
		c.plugins.filters = append(c.plugins.filters, p)
		c.plugins.addScorer(p, int64(i+1))
	}
	for _, name := range nodes {
		c.cache.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	info, _ := framework.NewPodInfo(aPod("web", 0))
	return c, framework.NewCycle(info, c.cache.Snapshot())
}

func (v verdict) String() string {
	switch {
	case v.err != nil:
		return v.err.Error()
	case v.node != "":
		return v.node
	}
	return v.diagnosis.Error() + " " + strings.Join(sets.List(v.diagnosis.Plugins), ",")
}

// TestDecide: the node of a pod, or why there is none.
func TestDecide(t *testing.T) {
	no := func(reasons ...string) *framework.Status {
		return framework.NewStatus(framework.Unschedulable, reasons...)
	}
	never := framework.NewStatus(framework.UnschedulableAndUnresolvable, "never")
	failed := framework.AsStatus(errors.New("failed"))
	type status = map[string]*framework.Status
	for _, test := range []struct {
		name    string
		plugins []*standIn
		want    string
	}{
		{"no plugin", nil, "a"},
		{"the only one", []*standIn{{name: "P", nodes: status{"a": no("x"), "c": never}}}, "b"},
		{"nothing to filter", []*standIn{{name: "P", pod: framework.SkipCycle, nodes: status{"a": no("x")}}}, "a"},
		{"reasons are counted", []*standIn{
			{name: "P", nodes: status{"a": no("y"), "b": no("y", "x")}},
			{name: "Q", nodes: status{"a": no("z"), "c": never}},
		}, "0/3 nodes are available: 1 never, 1 x, 2 y. P,Q"},
		{"the pod is rejected", []*standIn{{name: "P", pod: never}, {name: "Q", pod: no("x")}}, "0/3 nodes are available: never. P"},
		{"the pod is rejected, but for others", []*standIn{{name: "P", pod: no("x")}, {name: "Q"}}, "0/3 nodes are available: x. P"},
		{"an error with the pod", []*standIn{{name: "P", pod: failed}}, `running PreFilter plugin "P": failed`},
		{"an error with a node", []*standIn{{name: "P", nodes: status{"b": failed}}}, `running "P" filter plugin: failed`},
		{"a named node", []*standIn{{name: "P", only: []string{"c", "d"}}}, "c"},
		{
			"a named node is rejected",
			[]*standIn{{name: "P", only: []string{"c"}}, {name: "Q", nodes: status{"c": no("x")}}},
			"0/3 nodes are available: 1 x, 2 node(s) didn't satisfy plugin(s) [P]. P,Q",
		},
		{"a node that is not there", []*standIn{{name: "P", only: []string{"d"}}}, "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [P]. P"},
		{"no node is named", []*standIn{{name: "P", only: []string{}}}, "0/3 nodes are available: node(s) didn't satisfy plugin P. P"},
		{
			"different nodes are named",
			[]*standIn{{name: "P", only: []string{"a"}}, {name: "Q", only: []string{"b"}}},
			"0/3 nodes are available: node(s) didn't satisfy plugin(s) [P Q] simultaneously. P,Q",
		},
		{"the best", []*standIn{{name: "P", scores: map[string]int64{"a": 1, "b": 3, "c": 2}}}, "b"},
		{"of the best the first", []*standIn{{name: "P", scores: map[string]int64{"a": 1, "b": 3, "c": 3}}}, "b"},
		{"weights", []*standIn{
			{name: "P", scores: map[string]int64{"a": 10}},
			{name: "Q", scores: map[string]int64{"c": 6}},
		}, "c"},
		{"no score", []*standIn{{name: "P", scores: map[string]int64{"b": -1}}}, `running Score plugins: plugin "P" failed with: no score`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, cycle := newDecider(test.plugins, "a", "b", "c")
			if got := c.decide(context.Background(), cycle).String(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestNoNodes(t *testing.T) {
	c, cycle := newDecider(nil)
	if v := c.decide(context.Background(), cycle); v.String() != "no nodes available to schedule pods " || !v.clear {
		t.Error(v)
	}
}

// TestNominatedNode: a pod comes to its nominated node, even if others are better; room that was made for
// another pod is left to it.
func TestNominatedNode(t *testing.T) {
	scores := map[string]int64{"a": 1}
	for _, test := range []struct {
		name, own string
		other     int32 // the priority of the pod that is nominated for a
		nodes     map[string]*framework.Status
		want      string
	}{
		{"own", "b", -1, nil, "b"},
		{"own, which is not there", "d", -1, nil, "a"},
		{"own, which is full", "b", -1, map[string]*framework.Status{"b": framework.NewStatus(framework.Unschedulable, "x")}, "a"},
		{"of a less important pod", "", -1, nil, "a"},
		{"of another pod", "", 0, nil, "b"},
		{"own and another's", "a", 0, nil, "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, cycle := newDecider([]*standIn{{name: "P", scores: scores, nodes: test.nodes, podsTwice: true}}, "a", "b")
			cycle.APIPod().Status.NominatedNodeName = test.own
			c.nominated.set(cycle.APIPod(), test.own)
			c.nominated.set(aPod("other", test.other), "a")
			if got := c.decide(context.Background(), cycle).String(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestFeasibleMax: how many feasible nodes suffice.
func TestFeasibleMax(t *testing.T) {
	for _, test := range []struct{ percentage, nodes, want int }{
		{0, 10, 10}, {0, 99, 99}, {40, 10, 10}, {0, 1000, 420}, {40, 1000, 400}, {0, 6000, 300}, {40, 6000, 2400}, {0, 150, 100}, {0, 200, 100},
	} {
		c := &profile{percentage: test.percentage}
		if got := c.feasibleMax(test.nodes); got != test.want {
			t.Errorf("%d nodes, %d%%: %d, want %d", test.nodes, test.percentage, got, test.want)
		}
	}
}

// TestNodesNeeded: the first feasible node is enough if no plugin and no extender could prefer or reject it.
func TestNodesNeeded(t *testing.T) {
	for _, test := range []struct {
		name     string
		plugins  []*standIn
		extender *configv1.Extender
		want     int
	}{
		{"a plugin that scores", []*standIn{{name: "P"}}, nil, 3},
		{"none", nil, nil, 1},
		{"an extender that only binds", nil, &configv1.Extender{BindVerb: "bind"}, 1},
		{"an extender that filters", nil, &configv1.Extender{FilterVerb: "filter"}, 3},
		{"an extender that ranks", nil, &configv1.Extender{PrioritizeVerb: "prioritize", Weight: 1}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := newDecider(test.plugins)
			if test.extender != nil {
				test.extender.URLPrefix = "http://extender/"
				p := sim.NewStepped(sim.SteppedConfig{}).Process("scheduler")
				c.extenders = testcheck.Must(extender.NewList(p, []configv1.Extender{*test.extender}, nil))
			}
			testcheck.Equal(t, "nodes", test.want, c.nodesNeeded(3))
		})
	}
}

// TestNodesTakeTurns: with many nodes, each search goes on where the last one ended.
func TestNodesTakeTurns(t *testing.T) {
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("node-%03d", i))
	}
	c, cycle := newDecider([]*standIn{{name: "P"}}, names...)
	var got []string
	for range 4 {
		feasible, err := c.feasibleNodes(context.Background(), framework.NewCycle(cycle.Pod, cycle.Snapshot), &framework.Diagnosis{NodesMax: len(names)})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(feasible[0].Name(), " ", len(feasible)))
	}
	if want := []string{"node-000 120", "node-120 120", "node-240 120", "node-110 120"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}
