package extender_test

import (
	"context"
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
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// An answer is a case of testdata/answers.yaml.
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

func readAnswers(t *testing.T) []*answer {
	t.Helper()
	var all []*answer
	testcheck.NoError(t, yaml.UnmarshalStrict(testcheck.Must(os.ReadFile("testdata/answers.yaml")), &all))
	return all
}

// testURL is the URL prefix of extenders that are not reached by HTTP.
const testURL = "https://extender.example/v1"

func (a *answer) config(url string) configv1.Extender {
	return configv1.Extender{
		URLPrefix: url, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", PreemptVerb: "preempt",
		Weight: 2, NodeCacheCapable: a.Names,
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

// newSnapshot returns nodes with a pod each.
func newSnapshot(names ...string) *framework.Snapshot {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, name := range names {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		pod := newPod(name)
		pod.Spec.NodeName = name
		pods = append(pods, pod)
	}
	return framework.NewSnapshot(nodes, pods)
}

// ask asks an extender, and returns its answer as text.
func (a *answer) ask(ctx context.Context, e *extender.Extender) string {
	on, pod := newSnapshot("a", "b"), newPod("web")
	var text string
	var err error
	switch a.Ask {
	case "filter":
		var accepted []*framework.NodeInfo
		var failed, unresolvable extenderv1.FailedNodesMap
		accepted, failed, unresolvable, err = e.Filter(ctx, pod, on.Nodes())
		var names []string
		for _, n := range accepted {
			names = append(names, fmt.Sprintf("%s+%d", n.Node.Name, len(n.Pods)))
		}
		text = strings.Join(names, " ") + reasons(" failed", failed) + reasons(" unresolvable", unresolvable)
	case "prioritize":
		var scores extenderv1.HostPriorityList
		var weight int64
		scores, weight, err = e.Prioritize(ctx, pod, on.Nodes())
		var words []string
		for _, s := range scores {
			words = append(words, fmt.Sprintf("%s=%d", s.Host, s.Score))
		}
		text = fmt.Sprintf("%s weight %d", strings.Join(words, " "), weight)
	case "bind":
		text, err = "bound", e.Bind(ctx, &corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Name: "a"}})
	case "preempt":
		victims := map[string]*extenderv1.Victims{}
		for _, n := range on.Nodes() {
			victims[n.Node.Name] = &extenderv1.Victims{Pods: []*corev1.Pod{n.Pods[0].Pod}}
		}
		victims, err = e.ProcessPreemption(ctx, pod, victims, on)
		text = victimsText(victims)
	}
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), e.URL(), "URL")
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

// inStepped runs f as a task of a scheduler in a stepped world.
func inStepped(t *testing.T, host *sim.Stepped, f func(ctx context.Context, p *sim.Process)) {
	t.Helper()
	p := host.Process("scheduler")
	done := false
	p.Spawn("test", func(ctx context.Context) { f(ctx, p); done = true })
	if err := host.Run(); err != nil || !done {
		t.Fatalf("done %v, error %v; tasks wait for %v", done, err, host.Waiting())
	}
}

// inLive runs f as a task of a scheduler in a live world.
func inLive(t *testing.T, f func(ctx context.Context, p *sim.Process)) {
	t.Helper()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	p := host.Process("scheduler")
	done := make(chan struct{})
	p.Spawn("test", func(ctx context.Context) { f(ctx, p); close(done) })
	host.Start()
	<-done
}

// TestAnswers checks what follows from each answer of an extender, whatever the way to it is.
func TestAnswers(t *testing.T) {
	t.Parallel()
	check := func(ctx context.Context, t *testing.T, a *answer, e *extender.Extender) {
		t.Helper()
		if got := a.ask(ctx, e); got != a.Want {
			t.Errorf("%s: got %q, want %q", a.Name, got, a.Want)
		}
	}
	ways := map[string]func(t *testing.T, a *answer){
		"HTTP, live": func(t *testing.T, a *answer) {
			server := httptest.NewServer(a)
			defer server.Close()
			inLive(t, func(ctx context.Context, p *sim.Process) {
				check(ctx, t, a, testcheck.Must(extender.New(p, a.config(server.URL), nil)))
			})
		},
		"handler, live": func(t *testing.T, a *answer) {
			inLive(t, func(ctx context.Context, p *sim.Process) {
				check(ctx, t, a, testcheck.Must(extender.New(p, a.config(testURL), endpoint.New(a))))
			})
		},
		"handler, stepped": func(t *testing.T, a *answer) {
			inStepped(t, sim.NewStepped(sim.SteppedConfig{}), func(ctx context.Context, p *sim.Process) {
				check(ctx, t, a, testcheck.Must(extender.New(p, a.config(testURL), endpoint.New(a))))
			})
		},
		"process, stepped": func(t *testing.T, a *answer) {
			host := sim.NewStepped(sim.SteppedConfig{})
			at := endpoint.New(nil)
			at.Serve(host.Process("extender"), a)
			inStepped(t, host, func(ctx context.Context, p *sim.Process) {
				check(ctx, t, a, testcheck.Must(extender.New(p, a.config(testURL), at)))
			})
		},
	}
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for _, a := range readAnswers(t) {
				ways[way](t, a)
			}
		})
	}
}
