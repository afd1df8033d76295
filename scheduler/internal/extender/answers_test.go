package extender_test

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/extendertest"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// testURL is the URL prefix of extenders that are not reached by HTTP.
const testURL = "https://extender.example/v1"

func configOf(c *extendertest.Case, url string) configv1.Extender {
	return configv1.Extender{
		URLPrefix: url, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", PreemptVerb: "preempt",
		Weight: 2, NodeCacheCapable: c.Names,
	}
}

// newPod returns a pod whose UID is its name.
func newPod(name string) *corev1.Pod { return extendertest.NewPod(name) }

// newSnapshot returns nodes with a pod each.
func newSnapshot(names ...string) *framework.Snapshot {
	return framework.NewSnapshot(extendertest.NewNodes(names...))
}

// ask asks an extender, and returns its answer as text.
func ask(ctx context.Context, c *extendertest.Case, e *extender.Extender) string {
	on, pod := newSnapshot("a", "b"), newPod("web")
	var text string
	var err error
	switch c.Ask {
	case "filter":
		var accepted []*framework.NodeInfo
		var failed, unresolvable extenderv1.FailedNodesMap
		accepted, failed, unresolvable, err = e.Filter(ctx, pod, on.Nodes())
		var names []string
		for _, n := range accepted {
			names = append(names, fmt.Sprintf("%s+%d", n.Node.Name, len(n.Pods)))
		}
		text = extendertest.Filtered(names, failed, unresolvable)
	case "prioritize":
		var scores extenderv1.HostPriorityList
		var weight int64
		scores, weight, err = e.Prioritize(ctx, pod, on.Nodes())
		text = extendertest.Prioritized(scores, weight)
	case "bind":
		text, err = "bound", e.Bind(ctx, &corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Name: "a"}})
	case "preempt":
		victims := map[string]*extenderv1.Victims{}
		for _, n := range on.Nodes() {
			victims[n.Node.Name] = &extenderv1.Victims{Pods: []*corev1.Pod{n.Pods[0].Pod}}
		}
		victims, err = e.ProcessPreemption(ctx, pod, victims, on)
		text = extendertest.Preempted(victims)
	}
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), e.URL(), "URL")
	}
	return text
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
	check := func(ctx context.Context, t *testing.T, c *extendertest.Case, e *extender.Extender) {
		t.Helper()
		if got := ask(ctx, c, e); got != c.Want {
			t.Errorf("%s: got %q, want %q", c.Name, got, c.Want)
		}
	}
	ways := map[string]func(t *testing.T, c *extendertest.Case){
		"HTTP, live": func(t *testing.T, c *extendertest.Case) {
			server := httptest.NewServer(c)
			defer server.Close()
			inLive(t, func(ctx context.Context, p *sim.Process) {
				check(ctx, t, c, testcheck.Must(extender.New(p, configOf(c, server.URL), nil)))
			})
		},
		"handler, live": func(t *testing.T, c *extendertest.Case) {
			inLive(t, func(ctx context.Context, p *sim.Process) {
				check(ctx, t, c, testcheck.Must(extender.New(p, configOf(c, testURL), endpoint.New(c))))
			})
		},
		"handler, stepped": func(t *testing.T, c *extendertest.Case) {
			inStepped(t, sim.NewStepped(sim.SteppedConfig{}), func(ctx context.Context, p *sim.Process) {
				check(ctx, t, c, testcheck.Must(extender.New(p, configOf(c, testURL), endpoint.New(c))))
			})
		},
		"process, stepped": func(t *testing.T, c *extendertest.Case) {
			host := sim.NewStepped(sim.SteppedConfig{})
			at := endpoint.New(nil)
			at.Serve(host.Process("extender"), c)
			inStepped(t, host, func(ctx context.Context, p *sim.Process) {
				check(ctx, t, c, testcheck.Must(extender.New(p, configOf(c, testURL), at)))
			})
		},
	}
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for _, c := range testcheck.Must(extendertest.Read("testdata/answers.yaml")) {
				ways[way](t, c)
			}
		})
	}
}
