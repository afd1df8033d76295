package extenderdiff

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/volsim/volsim/internal/extendertest"
)

// newSnapshot returns nodes with a pod each.
func newSnapshot(t *testing.T, names ...string) (fwk.NodeInfoLister, []fwk.NodeInfo) {
	t.Helper()
	nodes, pods := extendertest.NewNodes(names...)
	on := cache.NewSnapshot(pods, nodes).NodeInfos()
	infos, err := on.List()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return on, infos
}

// ask asks an extender, and returns its answer as text.
func ask(t *testing.T, c *extendertest.Case, e fwk.Extender) string {
	t.Helper()
	on, nodes := newSnapshot(t, "a", "b")
	pod := extendertest.NewPod("web")
	text, err := "", error(nil)
	switch c.Ask {
	case "filter":
		var accepted []fwk.NodeInfo
		var failed, unresolvable extenderv1.FailedNodesMap
		accepted, failed, unresolvable, err = e.Filter(pod, nodes)
		var names []string
		for _, n := range accepted {
			names = append(names, fmt.Sprintf("%s+%d", n.Node().Name, len(n.GetPods())))
		}
		text = extendertest.Filtered(names, failed, unresolvable)
	case "prioritize":
		var scores *extenderv1.HostPriorityList
		var weight int64
		if scores, weight, err = e.Prioritize(pod, nodes); err != nil {
			break
		}
		text = extendertest.Prioritized(*scores, weight)
	case "bind":
		text, err = "bound", e.Bind(&corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Name: "a"}})
	case "preempt":
		victims := map[string]*extenderv1.Victims{}
		for _, n := range nodes {
			victims[n.Node().Name] = &extenderv1.Victims{Pods: []*corev1.Pod{n.GetPods()[0].GetPod()}}
		}
		victims, err = e.ProcessPreemption(pod, victims, on)
		text = extendertest.Preempted(victims)
	}
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), e.Name(), "URL")
	}
	return text
}

func TestUpstreamsSchedulerHasTheSameAnswers(t *testing.T) {
	t.Parallel()
	all, err := extendertest.Read("../../../scheduler/internal/extender/testdata/answers.yaml")
	if err != nil || len(all) < 30 {
		t.Fatalf("%d cases: %v", len(all), err)
	}
	for _, c := range all {
		server := httptest.NewServer(c)
		e, err := upstream.NewHTTPExtender(&config.Extender{
			URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", PreemptVerb: "preempt",
			Weight: 2, NodeCacheCapable: c.Names,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(t, c, e); got != c.Want {
			t.Errorf("%s: upstream has %q, want %q", c.Name, got, c.Want)
		}
		server.Close()
	}
}
