package extenderdiff

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"sigs.k8s.io/yaml"
)

// An answer is a case of scheduler/internal/extender.
type answer struct {
	Name   string
	Ask    string // filter, prioritize, bind, preempt
	Names  bool   // nodeCacheCapable
	Status int    // 0: 200
	Body   string
	Want   string
}

// ServeHTTP answers any request.
func (a *answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write([]byte(a.Body))
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

// newSnapshot returns nodes with a pod each.
func newSnapshot(t *testing.T, names ...string) (fwk.NodeInfoLister, []fwk.NodeInfo) {
	t.Helper()
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, name := range names {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		pod := newPod(name)
		pod.Spec.NodeName = name
		pods = append(pods, pod)
	}
	on := cache.NewSnapshot(pods, nodes).NodeInfos()
	infos, err := on.List()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return on, infos
}

// ask asks an extender, and returns its answer as text.
func (a *answer) ask(t *testing.T, e fwk.Extender) string {
	t.Helper()
	on, nodes := newSnapshot(t, "a", "b")
	pod := newPod("web")
	text, err := "", error(nil)
	switch a.Ask {
	case "filter":
		var accepted []fwk.NodeInfo
		var failed, unresolvable extenderv1.FailedNodesMap
		accepted, failed, unresolvable, err = e.Filter(pod, nodes)
		var names []string
		for _, n := range accepted {
			names = append(names, fmt.Sprintf("%s+%d", n.Node().Name, len(n.GetPods())))
		}
		text = strings.Join(names, " ") + reasons(" failed", failed) + reasons(" unresolvable", unresolvable)
	case "prioritize":
		var scores *extenderv1.HostPriorityList
		var weight int64
		if scores, weight, err = e.Prioritize(pod, nodes); err != nil {
			break
		}
		var words []string
		for _, s := range *scores {
			words = append(words, fmt.Sprintf("%s=%d", s.Host, s.Score))
		}
		text = fmt.Sprintf("%s weight %d", strings.Join(words, " "), weight)
	case "bind":
		text, err = "bound", e.Bind(&corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Name: "a"}})
	case "preempt":
		victims := map[string]*extenderv1.Victims{}
		for _, n := range nodes {
			victims[n.Node().Name] = &extenderv1.Victims{Pods: []*corev1.Pod{n.GetPods()[0].GetPod()}}
		}
		victims, err = e.ProcessPreemption(pod, victims, on)
		text = victimsText(victims)
	}
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), e.Name(), "URL")
	}
	return text
}

func reasons(what string, of extenderv1.FailedNodesMap) string {
	for _, node := range slices.Sorted(maps.Keys(of)) {
		what += " " + node + "=" + of[node]
	}
	if len(of) == 0 {
		return ""
	}
	return what
}

func victimsText(victims map[string]*extenderv1.Victims) string {
	var words []string
	for _, node := range slices.Sorted(maps.Keys(victims)) {
		names := []string{}
		for _, pod := range victims[node].Pods {
			names = append(names, pod.Name)
		}
		words = append(words, fmt.Sprintf("%s: %v %d", node, names, victims[node].NumPDBViolations))
	}
	return strings.Join(words, " ")
}

func TestUpstreamsSchedulerHasTheSameAnswers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../scheduler/internal/extender/testdata/answers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []*answer
	if err := yaml.UnmarshalStrict(text, &all); err != nil || len(all) < 30 {
		t.Fatalf("%d cases: %v", len(all), err)
	}
	for _, a := range all {
		server := httptest.NewServer(a)
		e, err := upstream.NewHTTPExtender(&config.Extender{
			URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", PreemptVerb: "preempt",
			Weight: 2, NodeCacheCapable: a.Names,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.ask(t, e); got != a.Want {
			t.Errorf("%s: upstream has %q, want %q", a.Name, got, a.Want)
		}
		server.Close()
	}
}
