package podgc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/podgc"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	*testworld.World
	process *sim.Process
	failing int   // number of requests that fail
	with    error // their error
}

// failing fails the next requests of a process.
type failing struct {
	sim.Caller
	world *world
}

func (f failing) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Caller.Call(action, func() trace.Outcome {
		if f.world.failing > 0 {
			f.world.failing--
			return trace.Outcome{Err: f.world.with}
		}
		return effect()
	})
}

// newWorld returns a world whose controller keeps some finished pods. Its caches have the filters of
// a cluster, or none.
func newWorld(t testing.TB, terminatedMax int, filtered bool) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 3000}), with: apierrors.NewTooManyRequests("later", 1)}
	w.process = w.Host.Process("podgc")
	w.start(terminatedMax, filtered)
	return w
}

func (w *world) start(terminatedMax int, filtered bool) {
	cfg := podgc.Config{
		Process: w.process, Client: w.Server.Client(failing{w.process, w}), TerminatedMax: terminatedMax,
		Informers: w.Server.Informers(w.process),
	}
	if filtered {
		match := func(old, obj fake.Object) bool { return podgc.Concerns(cfg.Informers, old, obj) }
		cfg.Informers = w.Server.Informers(w.process,
			fake.Filter{Resource: "nodes", Match: match}, fake.Filter{Resource: "pods", Match: match})
	}
	podgc.New(cfg)
}

// pod stores a pod. A terminating one without a node has a finalizer, without which it would be gone.
func (w *world) pod(name, node string, phase corev1.PodPhase, options ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	for _, o := range options {
		switch o {
		case "terminating":
			if node == "" || phase == corev1.PodSucceeded || phase == corev1.PodFailed {
				pod.Finalizers = []string{"example.com/keep"}
			}
		case "evicted":
			pod.Status.Reason = "Evicted"
		default:
			age, err := time.ParseDuration(o)
			w.NoError(err)
			pod.CreationTimestamp = metav1.NewTime(sim.Epoch.Add(-age))
		}
	}
	w.NoError(w.Server.Add(pod))
	if slices.Contains(options, "terminating") {
		w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
	}
}

// node stores a node with a condition Ready and taints.
func (w *world) node(name string, ready corev1.ConditionStatus, taints ...string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	for _, key := range taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	w.NoError(w.Server.Add(node))
}

func (w *world) deleteNode(name string) {
	w.NoError(w.User.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))
}

// requests returns the controller's writes since a record, as "patch a" or "delete a", sorted.
func (w *world) requests() string {
	var done []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && trace.Process(r.Task) == "podgc" && r.Verb != "get" && r.Err == nil {
			done = append(done, strings.TrimSuffix(r.Verb, "/status")+" "+strings.TrimPrefix(r.Object, "pods/default/"))
		}
	}
	slices.Sort(done)
	return strings.Join(slices.Compact(done), ", ")
}

const outOfService = corev1.TaintNodeOutOfService

// TestRemoved checks what is patched and deleted, with and without filters.
func TestRemoved(t *testing.T) {
	const running, failed, succeeded = corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded
	tests := []struct {
		name  string
		setUp func(w *world)
		want  string
	}{
		{"unscheduled pods in any phase", func(w *world) {
			w.pod("a", "", failed, "terminating")
			w.pod("b", "", succeeded, "terminating")
			w.pod("c", "", running, "terminating")
		}, "delete a, delete b, delete c, patch c"},
		{"scheduled pods in any phase", func(w *world) {
			w.node("node", corev1.ConditionTrue)
			w.pod("a", "", failed)
			w.pod("b", "node", succeeded)
			w.pod("c", "node", running, "terminating")
		}, ""},
		{"terminating pods of nodes that are not ready", func(w *world) {
			w.node("worker-0", corev1.ConditionFalse)
			w.node("worker-1", corev1.ConditionFalse)
			w.pod("a", "worker-0", "", "terminating")
			w.pod("b", "worker-1", "", "terminating")
		}, ""},
		{"terminating pods of some nodes that are out of service", func(w *world) {
			for i, ready := range []corev1.ConditionStatus{"False", "False", "True", "False", "Unknown", "True"} {
				node := fmt.Sprintf("worker-%d", i)
				switch i {
				case 1, 2:
					w.node(node, ready)
				default:
					w.node(node, ready, outOfService)
				}
				w.pod(fmt.Sprint("a", i), node, "")
				w.pod(fmt.Sprint("b", i), node, "", "terminating")
				w.pod(fmt.Sprint("c", i), node, corev1.PodPending)
				w.pod(fmt.Sprint("d", i), node, running)
			}
		}, "delete b0, delete b3, delete b4, patch b0, patch b3, patch b4"},
		{"terminating pods in any phase of a node that is out of service", func(w *world) {
			w.node("worker", corev1.ConditionFalse, outOfService)
			w.pod("a", "worker", running, "terminating")
			w.pod("b", "worker", failed, "terminating")
			w.pod("c", "worker", succeeded, "terminating")
		}, "delete a, delete b, delete c, patch a"},
		{"the node goes out of service later", func(w *world) {
			w.node("worker", corev1.ConditionTrue)
			w.pod("a", "worker", running, "terminating")
			w.pod("b", "worker", running)
			w.Run()
			w.Server.UpdateStored("nodes", "", "worker", func(stored fake.Object) fake.Object {
				node := stored.(*corev1.Node).DeepCopy()
				node.Spec.Taints = []corev1.Taint{{Key: outOfService, Effect: corev1.TaintEffectNoExecute}}
				node.Status.Conditions[0].Status = corev1.ConditionUnknown
				return node
			})
		}, "delete a, patch a"},
		{"the node exists", func(w *world) {
			w.node("existing1", corev1.ConditionTrue)
			w.node("existing2", corev1.ConditionTrue)
			w.pod("a", "existing1", running)
			w.pod("b", "existing2", failed)
			w.pod("c", "existing2", succeeded)
		}, ""},
		{"no nodes", func(w *world) {
			w.pod("a", "deleted", failed)
			w.pod("b", "deleted", succeeded)
		}, "delete a, delete b"},
		{"no nodes, one running pod", func(w *world) {
			w.pod("a", "deleted", failed)
			w.pod("b", "deleted", succeeded)
			w.pod("c", "deleted", running)
		}, "delete a, delete b, delete c, patch c"},
		{"another node", func(w *world) {
			w.node("existing", corev1.ConditionTrue)
			w.pod("a", "deleted", running)
		}, "delete a, patch a"},
		{"some nodes are missing", func(w *world) {
			w.node("existing", corev1.ConditionTrue)
			w.pod("a", "deleted", failed)
			w.pod("b", "existing", failed)
			w.pod("c", "deleted", succeeded)
			w.pod("d", "deleted", running)
		}, "delete a, delete c, delete d, patch d"},
		{"the node is deleted", func(w *world) {
			w.node("node", corev1.ConditionTrue)
			w.pod("a", "node", running)
			w.Run()
			w.deleteNode("node")
		}, "delete a, patch a"},
		{"the deleted node of a terminating pod", func(w *world) {
			w.node("node", corev1.ConditionTrue)
			w.pod("a", "node", running, "terminating")
			w.Run()
			w.deleteNode("node")
		}, "delete a, patch a"},
		{"the controller starts later", func(w *world) {
			w.node("node", corev1.ConditionTrue)
			w.node("lost", corev1.ConditionUnknown, outOfService)
			w.pod("a", "node", running)
			w.pod("b", "lost", running, "terminating")
			w.Host.Crash(w.process)
			w.deleteNode("node")
			w.process = w.Host.Process("podgc")
			w.start(-1, true)
		}, "delete a, delete b, patch a, patch b"},
		{"requests fail", func(w *world) {
			w.node("lost", corev1.ConditionUnknown, outOfService)
			w.pod("a", "deleted", running)
			w.pod("b", "lost", running, "terminating")
			w.failing = 7
		}, "delete a, delete b, patch a, patch b"},
	}
	for _, test := range tests {
		for _, filtered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/filtered=%v", test.name, filtered), func(t *testing.T) {
				w := newWorld(t, -1, filtered)
				test.setUp(w)
				w.Run()
				if got := w.requests(); got != test.want {
					t.Errorf("got %q, want %q\n%s", got, test.want, w.Host.Log().Text())
				}
			})
		}
	}
}

// TestTerminated has the cases of upstream's TestGCTerminated.
func TestTerminated(t *testing.T) {
	const running, failed, succeeded = corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded
	abc := func(a, b, c corev1.PodPhase, options ...string) func(w *world) {
		return func(w *world) {
			w.pod("a", "node", a, "3h")
			w.pod("b", "node", b, "2h")
			w.pod("c", "node", c, append(options, "1h")...)
		}
	}
	tests := []struct {
		name  string
		max   int
		setUp func(w *world)
		want  string
	}{
		{"two too many", 1, abc(failed, succeeded, failed), "delete a, delete b"},
		{"all are kept", -1, abc(failed, succeeded, failed), ""},
		{"one is running", 1, abc(running, succeeded, failed), "delete b"},
		{"room for more", 5, abc(failed, succeeded, failed), ""},
		{"one was evicted", 1, abc(failed, succeeded, failed, "evicted"), "delete a, delete c"},
		{"one runs, one was evicted", 1, abc(running, succeeded, failed, "evicted"), "delete c"},
		{"same age", 1, func(w *world) {
			w.pod("b", "node", failed)
			w.pod("a", "node", failed)
		}, "delete a"},
		{"a pod ends", 1, func(w *world) {
			abc(failed, running, running)(w)
			w.Run()
			w.Server.UpdateStored("pods", "default", "b", func(stored fake.Object) fake.Object {
				pod := stored.(*corev1.Pod).DeepCopy()
				pod.Status.Phase = succeeded
				return pod
			})
		}, "delete a"},
		{"requests fail", 1, func(w *world) {
			abc(failed, succeeded, failed)(w)
			w.failing = 3
		}, "delete a, delete b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.max, false)
			w.node("node", corev1.ConditionTrue)
			test.setUp(w)
			w.Run()
			if got := w.requests(); got != test.want {
				t.Errorf("got %q, want %q\n%s", got, test.want, w.Host.Log().Text())
			}
		})
	}
}

// TestDefaultThreshold checks that the filter passes finished pods above the default threshold.
func TestDefaultThreshold(t *testing.T) {
	w := newWorld(t, 0, true)
	w.node("node", corev1.ConditionTrue)
	for i := range 12501 {
		w.pod(fmt.Sprintf("pod-%05d", i), "node", corev1.PodSucceeded)
		if i == 12499 {
			w.Run()
			testcheck.Equal(t, "requests at the threshold", "", w.requests())
		}
	}
	w.Run()
	testcheck.Equal(t, "requests above the threshold", "delete pod-00000", w.requests())
}

// TestMarks checks the status of a pod of a deleted node before its deletion.
func TestMarks(t *testing.T) {
	w := newWorld(t, 0, true)
	w.pod("a", "deleted", corev1.PodRunning)
	w.Until("patch", func() bool { return w.requests() == "patch a" })
	obj, _ := w.Server.Get("pods", "default", "a")
	pod := obj.(*corev1.Pod)
	testcheck.Equal(t, "phase", corev1.PodFailed, pod.Status.Phase)
	testcheck.Equal(t, "conditions", []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
		Message:            "PodGC: node no longer exists",
		LastTransitionTime: metav1.NewTime(w.Host.Now()),
	}}, pod.Status.Conditions)
	w.Run()
	testcheck.Equal(t, "requests", "delete a, patch a", w.requests())
	testcheck.Equal(t, "pods", 0, len(w.Server.List("pods")))
}

// TestQuarantine checks when the pods of a missing node are removed, and when they are not.
func TestQuarantine(t *testing.T) {
	t.Run("time", func(t *testing.T) {
		w := newWorld(t, 0, true)
		w.pod("a", "node", corev1.PodRunning)
		w.Run()
		testcheck.Equal(t, "time", 40*time.Second, w.Host.Now().Sub(sim.Epoch))
		testcheck.Equal(t, "requests", "delete a, patch a", w.requests())
	})
	t.Run("the node appears", func(t *testing.T) {
		w := newWorld(t, 0, true)
		w.pod("a", "node", corev1.PodRunning)
		w.settle()
		w.node("node", corev1.ConditionTrue)
		w.Run()
		testcheck.Equal(t, "time", 0, w.Host.Now().Sub(sim.Epoch))
		testcheck.Equal(t, "requests", "", w.requests())
	})
	t.Run("the last pod goes", func(t *testing.T) {
		w := newWorld(t, 0, true)
		w.pod("a", "node", "")
		w.settle()
		now := int64(0)
		w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &now}))
		w.Run()
		testcheck.Equal(t, "time", 0, w.Host.Now().Sub(sim.Epoch))
	})
	t.Run("the cache lags", func(t *testing.T) {
		w := newWorld(t, 0, true)
		w.node("node", corev1.ConditionTrue)
		w.pod("a", "node", corev1.PodRunning)
		w.Run()
		w.deleteNode("node")
		w.settle()
		w.Host.SetTime(w.Host.Now().Add(40 * time.Second))
		w.Step("podgc/podgc nodes retry")
		w.node("node", corev1.ConditionTrue)
		w.Step("podgc/podgc nodes") // decides from the cache
		w.Step("podgc/podgc nodes") // reads the node
		w.Run()
		testcheck.Equal(t, "requests", "", w.requests())
		w.deleteNode("node")
		w.Run()
		testcheck.Equal(t, "requests after another deletion", "delete a, patch a", w.requests())
	})
}

// settle runs the world until nothing can happen before time passes.
func (w *world) settle() {
	w.Until("settled", func() bool { return !w.Host.Busy() })
}

// TestAnotherPodOfTheName lets a pod be replaced between two requests of the controller. The new pod
// stays.
func TestAnotherPodOfTheName(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, 0, true)
			w.node("lost", corev1.ConditionUnknown, outOfService)
			w.node("node", corev1.ConditionTrue)
			w.pod("a", "lost", phase, "terminating")
			w.Step("podgc/cache pods")
			w.Step("podgc/podgc") // decides
			w.Server.UpdateStored("pods", "default", "a", func(stored fake.Object) fake.Object {
				pod := stored.(*corev1.Pod).DeepCopy()
				pod.Finalizers = nil
				return pod
			})
			now := int64(0)
			if _, exists := w.Server.Get("pods", "default", "a"); exists {
				w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &now}))
			}
			w.pod("a", "node", corev1.PodRunning)
			w.Run()
			obj, exists := w.Server.Get("pods", "default", "a")
			if !exists {
				t.Fatalf("the new pod is gone\n%s", w.Host.Log().Text())
			}
			testcheck.Equal(t, "phase", corev1.PodRunning, obj.(*corev1.Pod).Status.Phase)
		})
	}
}

// TestConflictIsRetried has another write conflict with that of the controller. The pod is still the same.
func TestConflictIsRetried(t *testing.T) {
	w := newWorld(t, 0, true)
	w.node("lost", corev1.ConditionUnknown, outOfService)
	w.pod("a", "lost", corev1.PodRunning, "terminating")
	w.failing, w.with = 1, apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("changed"))
	w.Run()
	if _, exists := w.Server.Get("pods", "default", "a"); exists || w.failing > 0 {
		t.Errorf("the pod exists\n%s", w.Host.Log().Text())
	}
}

// TestIdle checks that ordinary changes cause no step.
func TestIdle(t *testing.T) {
	w := newWorld(t, 0, true)
	w.node("node", corev1.ConditionTrue)
	w.Run()
	w.pod("a", "node", corev1.PodPending)
	w.pod("b", "node", corev1.PodRunning)
	w.pod("c", "", corev1.PodPending)
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "b", metav1.DeleteOptions{}))
	w.Server.UpdateStored("pods", "default", "a", func(stored fake.Object) fake.Object {
		pod := stored.(*corev1.Pod).DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		return pod
	})
	w.node("other", corev1.ConditionUnknown, outOfService)
	w.deleteNode("other")
	w.Run()
	testcheck.Equal(t, "steps", 0, w.Host.Steps())
}
