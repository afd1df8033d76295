package extender_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/extendertest"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// A program is an extender that knows the nodes.
type program struct {
	nodes       []string // that it accepts; nil: all
	broken      []string // of the others: unresolvable
	silent      bool     // it gives no reasons
	scores      map[string]int64
	victims     map[string]*extenderv1.MetaVictims
	bindError   string
	fails       bool
	unconcerned bool // it manages a resource that no pod has
	ignorable   bool
	weight      int64
	verbs       string // that it has; "": all

	asked []string // with its arguments
}

// ServeHTTP implements upstream's protocol.
func (x *program) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	verb := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	if x.fails {
		x.asked = append(x.asked, verb)
		http.Error(w, "it fails", http.StatusInternalServerError)
		return
	}
	read := func(args any) {
		if err := json.NewDecoder(req.Body).Decode(args); err != nil || req.Method != http.MethodPost ||
			req.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "bad request", http.StatusBadRequest)
		}
	}
	var answer any
	switch verb {
	case "filter":
		var args extenderv1.ExtenderArgs
		read(&args)
		x.asked = append(x.asked, fmt.Sprintf("filter %s %v", args.Pod.Name, *args.NodeNames))
		answer = x.filter(*args.NodeNames)
	case "prioritize":
		var args extenderv1.ExtenderArgs
		read(&args)
		x.asked = append(x.asked, fmt.Sprintf("prioritize %s %v", args.Pod.Name, *args.NodeNames))
		list := extenderv1.HostPriorityList{}
		for _, name := range slices.Sorted(maps.Keys(x.scores)) {
			list = append(list, extenderv1.HostPriority{Host: name, Score: x.scores[name]})
		}
		answer = list
	case "bind":
		var args extenderv1.ExtenderBindingArgs
		read(&args)
		x.asked = append(x.asked, fmt.Sprintf("bind %s/%s %s to %s", args.PodNamespace, args.PodName, args.PodUID, args.Node))
		answer = extenderv1.ExtenderBindingResult{Error: x.bindError}
	case "preempt":
		var args extenderv1.ExtenderPreemptionArgs
		read(&args)
		x.asked = append(x.asked, fmt.Sprintf("preempt for %s on %v", args.Pod.Name, slices.Sorted(maps.Keys(args.NodeNameToMetaVictims))))
		answer = extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: x.victims}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (x *program) filter(names []string) *extenderv1.ExtenderFilterResult {
	accepted := []string{}
	result := &extenderv1.ExtenderFilterResult{
		NodeNames: &accepted, FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	for _, name := range names {
		switch {
		case x.nodes == nil || slices.Contains(x.nodes, name):
			accepted = append(accepted, name)
		case x.silent:
		case slices.Contains(x.broken, name):
			result.FailedNodes[name], result.FailedAndUnresolvableNodes[name] = "full", "broken"
		default:
			result.FailedNodes[name] = "full"
		}
	}
	return result
}

func (x *program) config(i int) configv1.Extender {
	verb := func(name string) string {
		if x.verbs != "" && !strings.Contains(x.verbs, name) {
			return ""
		}
		return name
	}
	cfg := configv1.Extender{
		URLPrefix: fmt.Sprintf("http://extender-%d/", i), NodeCacheCapable: true, Weight: x.weight, Ignorable: x.ignorable,
		FilterVerb: verb("filter"), PrioritizeVerb: verb("prioritize"), BindVerb: verb("bind"), PreemptVerb: verb("preempt"),
	}
	if x.unconcerned {
		cfg.ManagedResources = []configv1.ExtenderManagedResource{{Name: "example.com/disks"}}
	}
	return cfg
}

// withList runs f with the list of programs.
func withList(t *testing.T, programs []*program, f func(ctx context.Context, list extender.List)) {
	t.Helper()
	inStepped(t, sim.NewStepped(sim.SteppedConfig{}), func(ctx context.Context, p *sim.Process) {
		at := map[string]*endpoint.Endpoint{}
		var configs []configv1.Extender
		for i, x := range programs {
			cfg := x.config(i)
			configs, at[cfg.URLPrefix] = append(configs, cfg), endpoint.New(x)
		}
		f(ctx, testcheck.Must(extender.NewList(p, configs, at)))
	})
}

func TestIsInterested(t *testing.T) {
	t.Parallel()
	zero := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0")}
	requests := []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: zero}}}
	limits := []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Limits: zero}}}
	tests := []struct {
		name    string
		managed string
		spec    corev1.PodSpec
		want    bool
	}{
		{"no managed resources", "", corev1.PodSpec{}, true},
		{"no resources", "memory", corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}, false},
		{"another resource", "cpu", corev1.PodSpec{Containers: requests}, false},
		{"requests", "memory", corev1.PodSpec{Containers: requests}, true},
		{"limits", "memory", corev1.PodSpec{Containers: limits}, true},
		{"init container", "memory", corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}, InitContainers: requests}, true},
	}
	for _, tt := range tests {
		cfg := configv1.Extender{}
		if tt.managed != "" {
			cfg.ManagedResources = []configv1.ExtenderManagedResource{{Name: tt.managed}}
		}
		e := testcheck.Must(extender.New(nil, cfg, endpoint.New(nil)))
		if got := e.IsInterested(&corev1.Pod{Spec: tt.spec}); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		programs []*program
		want     string // the nodes, the statuses and the plugins that reject
		asked    []string
	}{
		{"error", []*program{{fails: true}}, "error: failed filter with extender at URL http://extender-0/filter, code 500", []string{"filter"}},
		{"success", []*program{{}}, "a b c", []string{"filter web [a b c]"}},
		{"unschedulable", []*program{{nodes: []string{"a", "c"}}}, "a c; b: 2 full; [Extender]", []string{"filter web [a b c]"}},
		{
			"unschedulable and unresolvable",
			[]*program{{nodes: []string{"a"}, broken: []string{"c"}}},
			"a; b: 2 full; c: 3 broken; [Extender]",
			[]string{"filter web [a b c]"},
		},
		{"without a reason", []*program{{nodes: []string{"a"}, silent: true}}, "a; [Extender]", []string{"filter web [a b c]"}},
		{
			"multiple extenders",
			[]*program{{nodes: []string{"a", "b"}, broken: []string{"c"}}, {nodes: []string{"a"}}},
			"a; b: 2 full; c: 3 broken; [Extender]",
			[]string{"filter web [a b c]", "filter web [a b]"},
		},
		{
			"they agree on none",
			[]*program{{nodes: []string{"b"}}, {nodes: []string{"a"}}},
			"; a: 2 full; b: 2 full; c: 2 full; [Extender]",
			[]string{"filter web [a b c]", "filter web [b]"},
		},
		{
			"none is left for the second",
			[]*program{{nodes: []string{}}, {}},
			"; a: 2 full; b: 2 full; c: 2 full; [Extender]",
			[]string{"filter web [a b c]"},
		},
		{"no verb", []*program{{verbs: "prioritize", fails: true}}, "a b c", nil},
		{"not interested", []*program{{unconcerned: true, fails: true}}, "a b c", nil},
		{"ignorable", []*program{{ignorable: true, fails: true}, {nodes: []string{"a"}}}, "a; b: 2 full; c: 2 full; [Extender]", []string{"filter", "filter web [a b c]"}},
		{
			"ignorable ones come last",
			[]*program{{ignorable: true, nodes: []string{"a"}}, {nodes: []string{"a", "b"}}},
			"a; b: 2 full; c: 2 full; [Extender]",
			[]string{"filter web [a b]", "filter web [a b c]"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got string
			withList(t, tt.programs, func(ctx context.Context, list extender.List) {
				var why framework.Diagnosis
				nodes, err := list.Filter(ctx, newPod("web"), newSnapshot("a", "b", "c").Nodes(), &why)
				got = filtered(nodes, &why, err)
			})
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			var asked []string
			for _, x := range tt.programs {
				asked = append(asked, x.asked...)
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func filtered(nodes []*framework.NodeInfo, why *framework.Diagnosis, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Node.Name)
	}
	parts := []string{strings.Join(names, " ")}
	for _, name := range slices.Sorted(maps.Keys(why.ByNode)) {
		s := why.ByNode[name]
		parts = append(parts, fmt.Sprintf("%s: %d %s", name, s.Code, s.Message()))
	}
	if len(why.Plugins) > 0 {
		parts = append(parts, fmt.Sprint(slices.Sorted(maps.Keys(why.Plugins))))
	}
	return strings.Join(parts, "; ")
}

// TestFilterKeepsEarlierReasons checks that the reasons of plugins stay.
func TestFilterKeepsEarlierReasons(t *testing.T) {
	t.Parallel()
	withList(t, []*program{{nodes: []string{"a"}}}, func(ctx context.Context, list extender.List) {
		var why framework.Diagnosis
		why.Reject("c", &framework.Status{Code: framework.Unschedulable, Reasons: []string{"taints"}, Plugin: "TaintToleration"})
		nodes, err := list.Filter(ctx, newPod("web"), newSnapshot("a", "b").Nodes(), &why)
		const want = "a; b: 2 full; c: 2 taints; [Extender TaintToleration]"
		if got := filtered(nodes, &why, err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPrioritize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		programs []*program
		want     map[string]int64
	}{
		{"none", nil, nil},
		{"one", []*program{{weight: 1, scores: map[string]int64{"a": 10, "b": 1}}}, map[string]int64{"a": 100, "b": 10}},
		{
			"two with weights",
			[]*program{{weight: 10, scores: map[string]int64{"a": 10, "b": 1}}, {weight: 50, scores: map[string]int64{"a": 1, "b": 10}}},
			map[string]int64{"a": 1500, "b": 5100},
		},
		{"fails", []*program{{weight: 1, fails: true}, {weight: 1, scores: map[string]int64{"a": 2}}}, map[string]int64{"a": 20}},
		{"not interested", []*program{{weight: 1, unconcerned: true, scores: map[string]int64{"a": 2}}}, nil},
		{"no verb", []*program{{weight: 1, verbs: "filter", scores: map[string]int64{"a": 2}}}, nil},
	}
	for _, tt := range tests {
		var got map[string]int64
		withList(t, tt.programs, func(ctx context.Context, list extender.List) {
			got = list.Prioritize(ctx, newPod("web"), newSnapshot("a", "b").Nodes())
		})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	const bound = "bind default/web web to a"
	tests := []struct {
		name     string
		programs []*program
		want     string
		asked    [][]string
	}{
		{"no extender", nil, "false <nil>", nil},
		{"the extender is not a binder", []*program{{verbs: "filter"}}, "false <nil>", [][]string{nil}},
		{"the second is a binder", []*program{{verbs: "filter"}, {}}, "true <nil>", [][]string{nil, {bound}}},
		{"the binder is not interested", []*program{{verbs: "filter"}, {unconcerned: true}}, "false <nil>", [][]string{nil, nil}},
		{"an ignorable binder fails", []*program{{ignorable: true, fails: true}}, "false <nil>", [][]string{{"bind"}}},
		{"a binder fails", []*program{{bindError: "no"}}, "true no", [][]string{{bound}}},
	}
	for _, tt := range tests {
		var got string
		withList(t, tt.programs, func(ctx context.Context, list extender.List) {
			found, err := list.Bind(ctx, newPod("web"), "a")
			got = fmt.Sprint(found, " ", err)
		})
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		for i, x := range tt.programs {
			if diff := cmp.Diff(tt.asked[i], x.asked); diff != "" {
				t.Errorf("%s: requests of %d (-want +got):\n%s", tt.name, i, diff)
			}
		}
	}
}

func TestPreempt(t *testing.T) {
	t.Parallel()
	victims := func(nodes ...string) map[string]*extenderv1.MetaVictims {
		all := map[string]*extenderv1.MetaVictims{}
		for _, node := range nodes {
			all[node] = &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: node}}}
		}
		return all
	}
	spared := victims("a", "b")
	spared["a"].Pods = nil
	null := victims("a")
	null["b"] = nil
	tests := []struct {
		name     string
		programs []*program
		want     string
		asked    int
	}{
		{"none", nil, "a: [a] 0 b: [b] 0", 0},
		{"one node is left", []*program{{victims: victims("b")}}, "b: [b] 0", 1},
		{"two extenders", []*program{{victims: victims("b")}, {victims: victims("b")}}, "b: [b] 0", 2},
		{"no node is left", []*program{{}, {victims: victims("a")}}, "", 1},
		{"no support", []*program{{verbs: "filter"}}, "a: [a] 0 b: [b] 0", 0},
		{"not interested", []*program{{unconcerned: true}}, "a: [a] 0 b: [b] 0", 0},
		{"fails", []*program{{fails: true}}, "error: failed preempt with extender at URL http://extender-0/preempt, code 500", 1},
		{"ignorable", []*program{{fails: true, ignorable: true}}, "a: [a] 0 b: [b] 0", 1},
		{"a node without victims", []*program{{victims: spared}}, `error: expected at least one victim pod on node "a"`, 1},
		{"a node without victims, ignorable", []*program{{victims: spared, ignorable: true}}, "b: [b] 0", 1},
		{"a node with null", []*program{{victims: null}}, "error: extender: http://extender-0/ claims null victims on node: b", 1},
	}
	for _, tt := range tests {
		var got string
		withList(t, tt.programs, func(ctx context.Context, list extender.List) {
			on, all := newSnapshot("a", "b"), map[string]*extenderv1.Victims{}
			for _, n := range on.Nodes() {
				all[n.Node.Name] = &extenderv1.Victims{Pods: []*corev1.Pod{n.Pods[0].Pod}}
			}
			left, err := list.Preempt(ctx, newPod("web"), all, on)
			if got = extendertest.Preempted(left); err != nil {
				got = "error: " + err.Error()
			}
		})
		asked := 0
		for _, x := range tt.programs {
			asked += len(x.asked)
		}
		if got != tt.want || asked != tt.asked {
			t.Errorf("%s: got %q after %d requests, want %q after %d", tt.name, got, asked, tt.want, tt.asked)
		}
	}
}

// TestVictimsByName checks what an extender that knows the pods receives, and that its answer is about the
// pods of the nodes.
func TestVictimsByName(t *testing.T) {
	t.Parallel()
	pods := map[string][]*corev1.Pod{"node-1": {newPod("a"), newPod("c")}, "node-2": {newPod("b"), newPod("d")}}
	var nodes []*corev1.Node
	var all []*corev1.Pod
	victims := map[string]*extenderv1.Victims{}
	for i, name := range []string{"node-1", "node-2"} {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for _, pod := range pods[name] {
			pod.Spec.NodeName = name
			all = append(all, pod)
		}
		victims[name] = &extenderv1.Victims{Pods: pods[name], NumPDBViolations: int64(i + 1)}
	}
	var received extenderv1.ExtenderPreemptionArgs
	echo := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		testcheck.NoError(t, json.NewDecoder(req.Body).Decode(&received))
		testcheck.NoError(t, json.NewEncoder(w).Encode(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: received.NodeNameToMetaVictims}))
	})
	inStepped(t, sim.NewStepped(sim.SteppedConfig{}), func(ctx context.Context, p *sim.Process) {
		e := testcheck.Must(extender.New(p, configv1.Extender{PreemptVerb: "preempt", NodeCacheCapable: true}, endpoint.New(echo)))
		got, err := e.ProcessPreemption(ctx, newPod("web"), victims, framework.NewSnapshot(nodes, all))
		testcheck.NoError(t, err)
		if diff := cmp.Diff(victims, got); diff != "" {
			t.Errorf("victims (-want +got):\n%s", diff)
		}
	})
	want := map[string]*extenderv1.MetaVictims{
		"node-1": {Pods: []*extenderv1.MetaPod{{UID: "a"}, {UID: "c"}}, NumPDBViolations: 1},
		"node-2": {Pods: []*extenderv1.MetaPod{{UID: "b"}, {UID: "d"}}, NumPDBViolations: 2},
	}
	if diff := cmp.Diff(want, received.NodeNameToMetaVictims); diff != "" || received.NodeNameToVictims != nil {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}
