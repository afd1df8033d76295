package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A deathWorld is a cluster of three nodes whose kubelets renew Leases. The set "web" has two pods, of
// which one is on the node that dies.
type deathWorld struct {
	setWorld

	node, victim string
	first        types.UID // of the victim
	died         time.Duration
}

func newDeathWorld(t *testing.T, configure ...func(*cluster.Config)) *deathWorld {
	cfg := cluster.Config{Nodes: 3, NodeLeases: true, Stepped: &sim.SteppedConfig{}}
	for _, f := range configure {
		f(&cfg)
	}
	w := &deathWorld{setWorld: setWorld{start(t, cfg), t}, victim: "web-1"}
	must(t)(w.Client().AppsV1().StatefulSets("default").Create(t.Context(), newStatefulSet(2), metav1.CreateOptions{}))
	w.settle(2)
	testcheck.NoError(t, w.Run(t.Context()))
	w.node, w.first = w.pod().Spec.NodeName, w.pod().UID
	w.died = w.now()
	return w
}

func (w *deathWorld) now() time.Duration { return w.Host().Now().Sub(sim.Epoch) }

// pod returns the victim, or nil.
func (w *deathWorld) pod() *corev1.Pod {
	obj, ok := w.Server().Get("pods", "default", w.victim)
	if !ok {
		return nil
	}
	return obj.(*corev1.Pod)
}

// moved reports whether another pod of the victim's name runs on another node.
func (w *deathWorld) moved() bool {
	pod := w.pod()
	return pod != nil && pod.UID != w.first && pod.Spec.NodeName != w.node && pod.Status.Phase == corev1.PodRunning
}

// run lets the world come to rest.
func (w *deathWorld) run() {
	w.t.Helper()
	testcheck.NoError(w.t, w.Run(context.Background()))
}

// firstTime returns when an action first took place, since the node died.
func (w *deathWorld) firstTime(what string, is func(r trace.Record) bool) time.Duration {
	w.t.Helper()
	for _, r := range w.Trace().Records() {
		if r.Err == nil && is(r) {
			return r.At - w.died
		}
	}
	w.t.Errorf("no %s", what)
	return 0
}

func (w *deathWorld) event(reason, object string) time.Duration {
	return w.firstTime("event "+reason, func(r trace.Record) bool {
		e, is := r.After.(*corev1.Event)
		return is && e.Reason == reason && e.InvolvedObject.Name == object
	})
}

// taintOutOfService confirms that the node is shut down, as kubectl taint does.
func (w *deathWorld) taintOutOfService() {
	w.t.Helper()
	nodes := w.Client().CoreV1().Nodes()
	node := testcheck.Must(nodes.Get(context.Background(), w.node, metav1.GetOptions{}))
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	})
	testcheck.Must(nodes.Update(context.Background(), node, metav1.UpdateOptions{}))
}

// expectDead checks the state of a world at rest in which the node is dead: its pod is terminating, and
// has no successor.
func (w *deathWorld) expectDead() {
	w.t.Helper()
	pod := w.pod()
	if pod == nil || pod.UID != w.first || pod.DeletionTimestamp == nil {
		w.t.Fatalf("pod %s is not terminating: %v", w.victim, pod)
	}
	if late := w.event("NodeNotReady", w.node); late < 40*time.Second || late > 50*time.Second {
		w.t.Errorf("the node is declared dead after %v, want 50 s after its last renewal", late)
	}
	evicted := w.firstTime("eviction", func(r trace.Record) bool {
		return r.Task == "tainteviction/tainteviction" && r.Verb == "delete"
	})
	testcheck.Equal(w.t, "eviction", w.event("NodeNotReady", w.node)+300*time.Second, evicted)
	var conditions []string
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget || c.Type == corev1.PodReady {
			conditions = append(conditions, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		}
	}
	slices.Sort(conditions)
	testcheck.Equal(w.t, "conditions", "DisruptionTarget=True DeletionByTaintManager, Ready=False ", strings.Join(conditions, ", "))
}

// TestDeadNode follows a StatefulSet with claims whose node dies: NotReady, tainted, evicted. Its pod
// then keeps terminating, until an administrator confirms what has become of the node.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	deaths := map[string]func(w *deathWorld) error{
		"partition":           func(w *deathWorld) error { return w.PartitionNode(w.node) },
		"the kubelet stopped": func(w *deathWorld) error { return w.Stop("kubelet(" + w.node + ")") },
	}
	ends := map[string]func(w *deathWorld){
		"out of service": (*deathWorld).taintOutOfService,
		"the Node is deleted": func(w *deathWorld) {
			testcheck.NoError(w.t, w.Client().CoreV1().Nodes().Delete(w.t.Context(), w.node, metav1.DeleteOptions{}))
		},
		"its pods are deleted by force": func(w *deathWorld) {
			now := int64(0)
			testcheck.NoError(w.t, w.Client().CoreV1().Pods("default").DeleteCollection(w.t.Context(),
				metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + w.node}))
		},
	}
	for death, die := range deaths {
		for end, finish := range ends {
			t.Run(death+", "+end, func(t *testing.T) {
				t.Parallel()
				w := newDeathWorld(t)
				testcheck.NoError(t, die(w))
				w.run()
				w.expectDead()
				before := w.now()
				finish(w)
				w.run()
				if !w.moved() {
					t.Fatalf("pod %s has not moved: %v\n%s", w.victim, w.pod(), w.Trace().Text())
				}
				detached := w.firstTime("detach", func(r trace.Record) bool {
					return r.Kind == trace.KindDriver && strings.HasSuffix(r.Verb, "ControllerUnpublishVolume")
				}) + w.died - before
				want := map[string]time.Duration{
					"out of service": 0, "the Node is deleted": 6*time.Minute + 40*time.Second, "its pods are deleted by force": 6 * time.Minute,
				}[end]
				testcheck.Equal(t, "time until the detach", want, detached)
			})
		}
	}
}

// TestDeadNodeReturns: a node that returns is ready again, and loses its taints. Its pods are ready
// again if they have not been evicted, and else end and are created again.
func TestDeadNodeReturns(t *testing.T) {
	t.Parallel()
	for _, evicted := range []bool{false, true} {
		t.Run(fmt.Sprintf("evicted=%v", evicted), func(t *testing.T) {
			t.Parallel()
			w := newDeathWorld(t)
			testcheck.NoError(t, w.PartitionNode(w.node))
			if evicted {
				w.run()
			} else {
				testcheck.NoError(t, w.Wait(t.Context(), "the eviction to be scheduled", func() bool {
					return w.now() > w.died+time.Minute
				}))
			}
			testcheck.NoError(t, w.RestoreNode(w.node))
			w.run()
			w.settle(2)
			obj, _ := w.Server().Get("nodes", "", w.node)
			node := obj.(*corev1.Node)
			testcheck.Equal(t, "taints", 0, len(node.Spec.Taints))
			for _, c := range node.Status.Conditions {
				testcheck.Equal(t, string(c.Type), c.Type == corev1.NodeReady, c.Status == corev1.ConditionTrue)
			}
			if same := w.pod().UID == w.first; same == evicted {
				t.Errorf("the pod is the same: %v\n%s", same, w.Trace().Text())
			}
			if !evicted {
				w.event("TaintManagerEviction", w.victim) // the cancellation
			}
		})
	}
}

// TestNoNodeDiesWithoutLeases: a stepped world whose kubelets do not renew Leases has no process that
// watches nodes, and a partitioned node is NotReady at once, without taints.
func TestNoNodeDiesWithoutLeases(t *testing.T) {
	t.Parallel()
	w := newDeathWorld(t, func(cfg *cluster.Config) { cfg.NodeLeases = false })
	testcheck.NoError(t, w.PartitionNode(w.node))
	w.run()
	for _, r := range w.Trace().Records() {
		switch trace.Process(r.Task) {
		case "nodelifecycle", "tainteviction", "podgc":
			t.Errorf("step of an idle controller: %v", r)
		}
	}
	if pod := w.pod(); pod.DeletionTimestamp != nil || pod.UID != w.first {
		t.Errorf("the pod was evicted: %v", pod)
	}
}

// TestNodeMonitorGracePeriod: how long a node may be silent can be configured.
func TestNodeMonitorGracePeriod(t *testing.T) {
	t.Parallel()
	w := newDeathWorld(t, func(cfg *cluster.Config) { cfg.NodeMonitorGracePeriod = 20 * time.Second })
	testcheck.NoError(t, w.Stop("kubelet("+w.node+")"))
	w.run()
	if after := w.event("NodeNotReady", w.node); after < 10*time.Second || after > 20*time.Second {
		t.Errorf("the node is declared dead after %v, want 20 s after its last renewal", after)
	}
}
