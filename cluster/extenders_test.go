package cluster_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// quotaURL is the URL prefix of the extender of these tests.
const quotaURL = "http://quota.example.com/scheduler"

// withQuota returns a configuration with an extender that filters and ranks.
func withQuota(timeout time.Duration) *configv1.KubeSchedulerConfiguration {
	return &configv1.KubeSchedulerConfiguration{Extenders: []configv1.Extender{{
		URLPrefix: quotaURL, FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 5, NodeCacheCapable: true,
		HTTPTimeout: metav1.Duration{Duration: timeout},
	}}}
}

// A quota is an extender in upstream's types. It rejects node-1, and prefers node-3.
type quota struct {
	asked  atomic.Int32                                               // the number of requests
	before func(w http.ResponseWriter, r *http.Request, n int32) bool // whether it answered the n-th; nil: none
}

// ServeHTTP implements upstream's protocol.
func (q *quota) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := q.asked.Add(1); q.before != nil && q.before(w, r, n) {
		return
	}
	args := extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/scheduler/prioritize" {
		scores := extenderv1.HostPriorityList{}
		for _, name := range *args.NodeNames {
			score := int64(0)
			if name == "node-3" {
				score = extenderv1.MaxExtenderPriority
			}
			scores = append(scores, extenderv1.HostPriority{Host: name, Score: score})
		}
		_ = json.NewEncoder(w).Encode(scores)
		return
	}
	others := slices.DeleteFunc(slices.Clone(*args.NodeNames), func(name string) bool { return name == "node-1" })
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{
		NodeNames: &others, FailedNodes: extenderv1.FailedNodesMap{"node-1": "over quota"},
	})
}

// failedScheduling returns the texts of the events of pods without a node.
func failedScheduling(c *cluster.Cluster) string {
	return strings.Join(eventTexts(c, "FailedScheduling"), "\n")
}

// TestExtenders asks an extender in the program, live and stepped.
func TestExtenders(t *testing.T) {
	t.Parallel()
	for name, stepped := range map[string]*sim.SteppedConfig{"live": nil, "stepped": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &quota{}
			c, ctx := start(t, cluster.Config{
				Nodes: 3, Devices: cluster.Array, Stepped: stepped, Scheduler: withQuota(0), Extenders: map[string]http.Handler{quotaURL: q},
			}), t.Context()
			testcheck.NoError(t, c.Apply(ctx, plainPod), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			if node := pendingPod(t, c, "web").Spec.NodeName; node != "node-3" || q.asked.Load() != 2 {
				t.Errorf("placed on %q after %d requests", node, q.asked.Load())
			}
			if !slices.Contains(c.Components(), "extender(quota.example.com)") {
				t.Errorf("components %q", c.Components())
			}
		})
	}
}

const plainPod = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: nginx}]}
`

// TestExtenderAnswersGarbage has an extender that does not speak the protocol at first. The pod's event says so, and the pod is
// tried again.
func TestExtenderAnswersGarbage(t *testing.T) {
	t.Parallel()
	garbage := []string{"{", `{"nodenames": 1}`, `{"nodenames": ["node-9"]}`, `{"error": "no database"}`}
	q := &quota{before: func(w http.ResponseWriter, _ *http.Request, n int32) bool {
		if int(n) > len(garbage) {
			return false
		}
		_, _ = w.Write([]byte(garbage[n-1]))
		return true
	}}
	c, ctx := start(t, cluster.Config{
		Nodes: 3, Stepped: &sim.SteppedConfig{}, Scheduler: withQuota(0), Extenders: map[string]http.Handler{quotaURL: q},
	}), t.Context()
	testcheck.NoError(t, c.Apply(ctx, plainPod), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	got := failedScheduling(c)
	for _, want := range []string{
		"unexpected EOF", "cannot unmarshal number",
		`extender "http://quota.example.com/scheduler" claims a filtered node "node-9" which is not found in the input node list`, "no database",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no event with %q in\n%s", want, got)
		}
	}
}

// TestExtenderTimesOut has an extender whose first answer comes too late, in a live world: in a stepped one no time passes while
// a handler answers.
func TestExtenderTimesOut(t *testing.T) {
	t.Parallel()
	const want = `Post "http://quota.example.com/scheduler/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`
	late := make(chan struct{})
	q := &quota{before: func(_ http.ResponseWriter, r *http.Request, n int32) bool {
		if n > 1 {
			return false
		}
		select {
		case <-late:
		case <-r.Context().Done():
		}
		return true
	}}
	c, ctx := start(t, cluster.Config{
		Nodes: 3, Devices: cluster.Array, Scheduler: withQuota(10 * time.Millisecond), Extenders: map[string]http.Handler{quotaURL: q},
	}), t.Context()
	testcheck.NoError(t, c.Apply(ctx, plainPod), c.Wait(ctx, "the event", func() bool { return strings.Contains(failedScheduling(c), want) }))
	close(late)
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
}

// TestExtenderIsStopped stops an extender. The scheduler is refused at once, live and stepped, and not after the timeout.
func TestExtenderIsStopped(t *testing.T) {
	t.Parallel()
	const want = `Post "http://quota.example.com/scheduler/filter": connect: connection refused`
	for name, stepped := range map[string]*sim.SteppedConfig{"live": nil, "stepped": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ctx := start(t, cluster.Config{
				Nodes: 3, Devices: cluster.Array, Stepped: stepped, Scheduler: withQuota(time.Hour), Extenders: map[string]http.Handler{quotaURL: &quota{}},
			}), t.Context()
			began := c.Host().Now()
			testcheck.NoError(t, c.Stop("extender(quota.example.com)"), c.Apply(ctx, plainPod),
				c.Wait(ctx, "the event", func() bool { return strings.Contains(failedScheduling(c), want) }))
			if waited := c.Host().Now().Sub(began); stepped != nil && waited >= time.Second {
				t.Errorf("failed after %v", waited)
			}
			testcheck.NoError(t, c.Resume("extender(quota.example.com)"), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			if node := pendingPod(t, c, "web").Spec.NodeName; node != "node-3" {
				t.Errorf("placed on %q", node)
			}
		})
	}
}

// TestExtenderIsStoppedMeanwhile stops an extender that has begun to answer. The request ends without an answer.
func TestExtenderIsStoppedMeanwhile(t *testing.T) {
	t.Parallel()
	const want = `Post "http://quota.example.com/scheduler/filter": EOF`
	asked := make(chan struct{})
	q := &quota{before: func(_ http.ResponseWriter, r *http.Request, n int32) bool {
		if n == 1 {
			close(asked)
			<-r.Context().Done()
		}
		return n == 1
	}}
	c, ctx := start(t, cluster.Config{
		Nodes: 3, Devices: cluster.Array, Scheduler: withQuota(time.Hour), Extenders: map[string]http.Handler{quotaURL: q},
	}), t.Context()
	testcheck.NoError(t, c.Apply(ctx, plainPod))
	<-asked
	testcheck.NoError(t, c.Stop("extender(quota.example.com)"),
		c.Wait(ctx, "the event", func() bool { return strings.Contains(failedScheduling(c), want) }),
		c.Resume("extender(quota.example.com)"), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
}

// TestExtenderFaults injects faults into the calls of an extender. The pod runs in the end.
func TestExtenderFaults(t *testing.T) {
	t.Parallel()
	faults := testcheck.Must(sim.ParseFaultSpecs("driver Unavailable(ExtenderFilter, 0.4), hang(ExtenderPrioritize, 0.4), driver-lost Internal(ExtenderFilter, 0.4)"))
	for seed := range uint64(10) {
		injector := testcheck.Must(sim.NewFaultInjector(sim.NewRandom(seed), seed, faults, 400))
		c, ctx := start(t, cluster.Config{
			Nodes: 3, Stepped: &sim.SteppedConfig{Strategy: injector}, Scheduler: withQuota(0), Extenders: map[string]http.Handler{quotaURL: &quota{}},
		}), context.Background()
		testcheck.NoError(t, c.ValidateFaults(faults), c.Apply(ctx, plainPod), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
		if node := pendingPod(t, c, "web").Spec.NodeName; node == "node-1" {
			t.Errorf("seed %d: placed on %s", seed, node)
		}
	}
}

// TestExtendersAreListed has extenders that nothing asks, or that cannot be asked.
func TestExtendersAreListed(t *testing.T) {
	t.Parallel()
	handler := http.Handler(&quota{})
	stepped := &sim.SteppedConfig{}
	two := withQuota(0)
	two.Extenders = append(two.Extenders, two.Extenders[0])
	two.Extenders[1].URLPrefix = "https://quota.example.com"
	for _, tt := range []struct {
		cfg  cluster.Config
		want string
	}{
		{cluster.Config{Stepped: stepped, Extenders: map[string]http.Handler{quotaURL: handler}}, `cluster: extender "` + quotaURL + `" must be in Config.Scheduler`},
		{
			cluster.Config{Stepped: stepped, Scheduler: withQuota(0)},
			`cluster: a stepped world has no network: extender "` + quotaURL + `" must be in Config.Extenders`,
		},
		{
			cluster.Config{Stepped: stepped, Scheduler: two, Extenders: map[string]http.Handler{quotaURL: handler, "https://quota.example.com": handler}},
			`cluster: extender "https://quota.example.com": another has the same host`,
		},
	} {
		c, err := cluster.New(tt.cfg)
		if err == nil {
			testcheck.NoError(t, c.Close())
		}
		if err == nil || err.Error() != tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}
