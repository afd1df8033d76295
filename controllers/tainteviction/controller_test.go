package tainteviction_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/tainteviction"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	*testworld.World
	process *sim.Process
	failing *int // number of requests that fail
}

// failing fails a process's first n requests for pods.
type failing struct {
	sim.Caller
	n *int
}

func (f failing) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Caller.Call(action, func() trace.Outcome {
		if *f.n > 0 && strings.HasPrefix(action.Object, "pods/") {
			*f.n--
			return trace.Outcome{Err: apierrors.NewTooManyRequests("later", 1)}
		}
		return effect()
	})
}

// newWorld returns a world with a controller. Its caches have the filters of a cluster, or none.
func newWorld(t testing.TB, filtered bool) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 3000}), failing: new(int)}
	w.start(filtered)
	return w
}

func (w *world) start(filtered bool) {
	w.process = w.Host.Process("tainteviction")
	client := w.Server.Client(failing{w.process, w.failing})
	cfg := tainteviction.Config{
		Process: w.process, Client: client, Informers: w.Server.Informers(w.process),
		Recorder: events.New(events.Config{Process: w.process, Client: client, Source: tainteviction.EventSource}),
	}
	if filtered {
		match := func(old, obj fake.Object) bool { return tainteviction.Concerns(cfg.Informers, old, obj) }
		cfg.Informers = w.Server.Informers(w.process,
			fake.Filter{Resource: "nodes", Match: match}, fake.Filter{Resource: "pods", Match: match})
	}
	tainteviction.New(cfg)
}

// crash replaces the process by a new one.
func (w *world) crash() {
	w.Host.Crash(w.process)
	w.Server.RemoveComponent(w.process)
	w.start(true)
}

// tolerations parses "1", "1=100s 2": the taints that are tolerated, and for how long.
func tolerations(text string) []corev1.Toleration {
	var all []corev1.Toleration
	for _, field := range strings.Fields(text) {
		taint, limit, limited := strings.Cut(field, "=")
		toleration := corev1.Toleration{
			Key: "taint" + taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		}
		if limited {
			seconds := int64(testcheck.Must(time.ParseDuration(limit)).Seconds())
			toleration.TolerationSeconds = &seconds
		}
		all = append(all, toleration)
	}
	return all
}

// taints returns the taints of some numbers, and one that evicts no pod.
func taints(numbers ...int) []corev1.Taint {
	all := []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	for _, n := range numbers {
		all = append(all, corev1.Taint{Key: fmt.Sprint("taint", n), Effect: corev1.TaintEffectNoExecute})
	}
	return all
}

func (w *world) pod(name, node, tolerates string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.NodeName, pod.Spec.Tolerations = node, tolerations(tolerates)
	w.NoError(w.Server.Add(pod))
}

func (w *world) changePod(name string, change func(pod *corev1.Pod)) {
	w.Server.UpdateStored("pods", "default", name, func(stored fake.Object) fake.Object {
		pod := stored.(*corev1.Pod).DeepCopy()
		change(pod)
		return pod
	})
}

func (w *world) node(numbers ...int) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	node.Spec.Taints = taints(numbers...)
	w.NoError(w.Server.Add(node))
}

func (w *world) taint(numbers ...int) {
	w.Server.UpdateStored("nodes", "", "node", func(stored fake.Object) fake.Object {
		node := stored.(*corev1.Node).DeepCopy()
		node.Spec.Taints = taints(numbers...)
		return node
	})
}

// remove deletes a pod at once.
func (w *world) remove(name string) {
	now := int64(0)
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.settle()
	w.Host.SetTime(w.Host.Now().Add(d))
	w.settle()
}

// settle runs the world until nothing can happen before time passes.
func (w *world) settle() {
	w.Until("settled", func() bool { return !w.Host.Busy() })
}

// evictions returns the deletions by the controller, as "a@30s".
func (w *world) evictions() string {
	var done []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && trace.Process(r.Task) == "tainteviction" && r.Verb == "delete" && r.Err == nil {
			done = append(done, strings.TrimPrefix(r.Object, "pods/default/")+"@"+r.At.String())
		}
	}
	slices.Sort(done)
	return strings.Join(done, " ")
}

// events returns the messages of the controller's events, in order.
func (w *world) events() string {
	var all []*corev1.Event
	for _, obj := range w.Server.List("events") {
		all = append(all, obj.(*corev1.Event))
	}
	slices.SortFunc(all, func(a, b *corev1.Event) int {
		return cmp.Or(len(a.ResourceVersion)-len(b.ResourceVersion), strings.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	var messages []string
	for _, e := range all {
		message := strings.ReplaceAll(e.Message, " Pod default/", " ")
		messages = append(messages, message)
	}
	return strings.Join(messages, ", ")
}

// TestEvictions has the cases of upstream's tables, and more.
func TestEvictions(t *testing.T) {
	tests := []struct {
		name   string
		setUp  func(w *world)
		want   string
		events string
	}{
		{"not scheduled", func(w *world) { w.node(1); w.pod("a", "", "") }, "", ""},
		{"on an untainted node", func(w *world) { w.node(); w.pod("a", "node", "") }, "", ""},
		{"on a tainted node", func(w *world) { w.node(1); w.pod("a", "node", "") }, "a@0s", "Marking for deletion a"},
		{"finite toleration", func(w *world) { w.node(1); w.pod("a", "node", "1=100s") }, "a@1m40s", "Marking for deletion a"},
		{"infinite toleration", func(w *world) { w.node(1); w.pod("a", "node", "1") }, "", ""},
		{"toleration of another taint", func(w *world) { w.node(1); w.pod("a", "node", "2") }, "a@0s", "Marking for deletion a"},
		{"toleration of no time", func(w *world) { w.node(1); w.pod("a", "node", "1=0s") }, "a@0s", "Marking for deletion a"},
		{"toleration of negative time", func(w *world) { w.node(1); w.pod("a", "node", "1=-5s") }, "a@0s", "Marking for deletion a"},
		{"the pod is scheduled onto a tainted node", func(w *world) {
			w.node(1)
			w.pod("a", "", "")
			w.settle()
			w.changePod("a", func(pod *corev1.Pod) { pod.Spec.NodeName = "node" })
		}, "a@0s", "Marking for deletion a"},
		{"the pod is scheduled onto a tainted node that it tolerates", func(w *world) {
			w.node(1)
			w.pod("a", "", "1")
			w.settle()
			w.changePod("a", func(pod *corev1.Pod) { pod.Spec.NodeName = "node" })
		}, "", ""},
		{"the toleration goes", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.changePod("a", func(pod *corev1.Pod) { pod.Spec.Tolerations = nil })
		}, "a@10s", "Cancelling deletion of a, Marking for deletion a"},
		{"a longer toleration", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.changePod("a", func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations("1=200s") })
		}, "a@1m40s", "Marking for deletion a"},
		{"a shorter toleration", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.changePod("a", func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations("1=50s") })
		}, "a@1m40s", "Marking for deletion a"},
		{"an infinite toleration", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.changePod("a", func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations("1") })
		}, "", "Cancelling deletion of a"},
		{"an untainted node is created", func(w *world) { w.pod("a", "node", ""); w.settle(); w.node() }, "", ""},
		{"a tainted node is created", func(w *world) { w.pod("a", "node", ""); w.settle(); w.node(1) }, "a@0s", "Marking for deletion a"},
		{"a tainted node is created that the pod tolerates", func(w *world) {
			w.pod("a", "node", "1")
			w.settle()
			w.node(1)
		}, "", ""},
		{"the node is tainted", func(w *world) { w.node(); w.pod("a", "node", ""); w.settle(); w.taint(1) }, "a@0s", "Marking for deletion a"},
		{"one of two taints is tolerated", func(w *world) {
			w.node()
			w.pod("a", "node", "1=100s")
			w.settle()
			w.taint(1, 2)
		}, "a@0s", "Marking for deletion a"},
		{"the taint goes", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(99 * time.Second)
			w.taint()
		}, "", "Cancelling deletion of a"},
		{"the taint goes and comes", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(99 * time.Second)
			w.taint()
			w.pass(10 * time.Second)
			w.taint(1)
		}, "a@3m29s", "Cancelling deletion of a, Marking for deletion a"},
		{"the first of two tolerations runs out", func(w *world) {
			w.node()
			w.pod("a", "node", "1=10s 2=100s")
			w.settle()
			w.taint(1, 2)
		}, "a@10s", "Marking for deletion a"},
		{"taints that are tolerated indefinitely and for a minute", func(w *world) {
			w.node()
			w.pod("a", "node", "1 2=60s")
			w.pass(time.Second)
			w.taint(1)
			w.pass(time.Second)
			w.taint(1, 2)
			w.pass(time.Second)
			w.taint(1)
		}, "", "Cancelling deletion of a"},
		{"pods with different tolerations", func(w *world) {
			w.node()
			w.pod("a", "node", "")
			w.pod("b", "node", "1=10s")
			w.pod("c", "node", "1")
			w.settle()
			w.taint(1)
		}, "a@0s b@10s", "Marking for deletion a, Marking for deletion b"},
		{"pods that do not tolerate all taints", func(w *world) {
			w.node()
			w.pod("a", "node", "")
			w.pod("b", "node", "1=10s")
			w.pod("c", "node", "1")
			w.settle()
			w.taint(1, 2)
		}, "a@0s b@0s c@0s", "Marking for deletion a, Marking for deletion b, Marking for deletion c"},
		{"the pod is deleted", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.remove("a")
		}, "", "Cancelling deletion of a"},
		{"another pod gets the name", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.remove("a")
			w.pod("a", "node", "1=50s")
		}, "a@1m0s", "Cancelling deletion of a, Marking for deletion a"},
		{"the node is deleted", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pass(10 * time.Second)
			w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "node", metav1.DeleteOptions{}))
		}, "a@1m40s", "Marking for deletion a"},
		{"requests fail", func(w *world) {
			w.node(1)
			w.pod("a", "node", "")
			*w.failing = 3
		}, "a@35ms", "Marking for deletion a"},
		{"the controller starts again", func(w *world) {
			w.node(1)
			w.pod("a", "node", "1=100s")
			w.pod("b", "node", "")
			w.pass(10 * time.Second)
			w.crash()
		}, "a@1m50s b@0s b@10s", "Marking for deletion b, Marking for deletion b, Marking for deletion a"},
	}
	for _, test := range tests {
		for _, filtered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/filtered=%v", test.name, filtered), func(t *testing.T) {
				w := newWorld(t, filtered)
				test.setUp(w)
				w.Run()
				if got := w.evictions(); got != test.want {
					t.Errorf("evictions: got %q, want %q\n%s", got, test.want, w.Host.Log().Text())
				}
				if got := w.events(); got != test.events {
					t.Errorf("events: got %q, want %q\n%s", got, test.events, w.Host.Log().Text())
				}
			})
		}
	}
}

// TestMarks checks the status and the deletion of an evicted pod.
func TestMarks(t *testing.T) {
	w := newWorld(t, true)
	w.node(1)
	w.pod("a", "node", "")
	w.changePod("a", func(pod *corev1.Pod) {
		grace := int64(7)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		pod.Status.Phase = corev1.PodRunning
	})
	w.Run()
	obj, _ := w.Server.Get("pods", "default", "a")
	pod := obj.(*corev1.Pod)
	testcheck.Equal(t, "phase", corev1.PodRunning, pod.Status.Phase)
	testcheck.Equal(t, "grace", 7, *pod.DeletionGracePeriodSeconds)
	testcheck.Equal(t, "conditions", []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.NewTime(sim.Epoch),
	}}, pod.Status.Conditions)
}

// TestAnotherPodOfTheName lets a pod be replaced between the decision and a request of the controller.
// The new pod, which tolerates the taint, stays.
func TestAnotherPodOfTheName(t *testing.T) {
	for requests := range 3 {
		t.Run(fmt.Sprint(requests), func(t *testing.T) {
			w := newWorld(t, true)
			w.node(1)
			w.pod("a", "node", "")
			w.Step("tainteviction/cache nodes")
			w.Step("tainteviction/cache pods")
			for range requests + 1 {
				w.Step("tainteviction/tainteviction")
			}
			w.remove("a")
			w.pod("a", "node", "1")
			w.Run()
			obj, exists := w.Server.Get("pods", "default", "a")
			if !exists || obj.GetDeletionTimestamp() != nil {
				t.Fatalf("the new pod is deleted\n%s", w.Host.Log().Text())
			}
			testcheck.Equal(t, "conditions", 0, len(obj.(*corev1.Pod).Status.Conditions))
		})
	}
}

// TestIdle checks that ordinary changes cause no step.
func TestIdle(t *testing.T) {
	w := newWorld(t, true)
	w.node()
	w.Run()
	w.pod("a", "node", "")
	w.pod("b", "", "1=10s")
	w.changePod("a", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	w.remove("a")
	w.taint(1)
	w.pod("c", "elsewhere", "")
	w.taint()
	w.Run()
	testcheck.Equal(t, "steps", 0, w.Host.Steps())
}
