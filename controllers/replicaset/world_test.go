package replicaset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a server with a controller of ReplicaSets or ReplicationControllers, a garbage collector, and a kubelet that makes all
// pods ready and ends those that are deleted.
type world struct {
	*testworld.World

	cfg        replicaset.Config // switches of the controller
	controller *sim.Process
	deaf       map[string]bool                 // pods that the kubelet does nothing for
	fail       func(action trace.Action) error // fails requests of the controller, if not nil
}

// eachKind runs a test for ReplicaSets and for ReplicationControllers.
func eachKind(t *testing.T, test func(t *testing.T, cfg replicaset.Config)) {
	t.Run("ReplicaSet", func(t *testing.T) { test(t, replicaset.Config{}) })
	t.Run("ReplicationController", func(t *testing.T) { test(t, replicaset.Config{ReplicationControllers: true}) })
}

// newWorld returns a world whose controller has the switches of cfg.
func newWorld(t testing.TB, chooser sim.Chooser, cfg ...replicaset.Config) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}), deaf: map[string]bool{}}
	for _, cfg := range cfg {
		w.cfg = cfg
	}
	w.StartKubelet(func(pod *corev1.Pod) bool { return w.deaf[pod.Name] })
	process := w.Host.Process("garbagecollector")
	client := w.Server.Client(process)
	garbagecollector.New(garbagecollector.Config{
		Process: process, Client: client.Metadata(), Watcher: w.Server.MetadataWatcher(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: garbagecollector.EventSource}),
	})
	w.start()
	return w
}

// start starts the controller.
func (w *world) start() {
	w.controller = w.Host.Process("replicaset")
	cfg := w.cfg
	cfg.Process = w.controller
	cfg.Informers = w.Server.Informers(w.controller, fake.Filter{Resource: "pods", Match: func(old, obj fake.Object) bool {
		return old != nil && cfg.ConcernsPod(old.(*corev1.Pod)) || obj != nil && cfg.ConcernsPod(obj.(*corev1.Pod))
	}})
	client := w.Server.Client(testworld.FailingCaller{Caller: w.controller, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	cfg.Client = client
	cfg.Recorder = events.New(events.Config{Process: w.controller, Client: client, Source: w.source()})
	replicaset.New(cfg)
}

// crash ends the controller's process, and starts another.
func (w *world) crash() {
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.start()
}

// newSet returns the set "web".
func newSet(replicas int32, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeName:   "node-1",
					Containers: []corev1.Container{{Name: "main", Image: "image:1"}},
				},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func replicas(n int32) func(*appsv1.ReplicaSet) {
	return func(set *appsv1.ReplicaSet) { set.Spec.Replicas = &n }
}

// kind returns the kind of the sets, and resource their resource.
func (w *world) kind() string {
	if w.cfg.ReplicationControllers {
		return "ReplicationController"
	}
	return "ReplicaSet"
}

func (w *world) resource() string { return strings.ToLower(w.kind()) + "s" }

// source returns the source of the controller's events.
func (w *world) source() string {
	if w.cfg.ReplicationControllers {
		return replicaset.ReplicationEventSource
	}
	return replicaset.EventSource
}

func (w *world) create(set *appsv1.ReplicaSet) {
	w.Helper()
	if w.cfg.ReplicationControllers {
		testcheck.Must(w.User.CoreV1().ReplicationControllers("default").Create(ctx, replicaset.FromSet(set), metav1.CreateOptions{}))
		return
	}
	testcheck.Must(w.User.AppsV1().ReplicaSets("default").Create(ctx, set, metav1.CreateOptions{}))
}

func (w *world) set() *appsv1.ReplicaSet {
	w.Helper()
	if w.cfg.ReplicationControllers {
		return replicaset.ToSet(testcheck.Must(w.User.CoreV1().ReplicationControllers("default").Get(ctx, "web", metav1.GetOptions{})))
	}
	return testcheck.Must(w.User.AppsV1().ReplicaSets("default").Get(ctx, "web", metav1.GetOptions{}))
}

// edit changes the set.
func (w *world) edit(change ...func(*appsv1.ReplicaSet)) {
	w.Helper()
	set := w.set()
	for _, f := range change {
		f(set)
	}
	if w.cfg.ReplicationControllers {
		testcheck.Must(w.User.CoreV1().ReplicationControllers("default").Update(ctx, replicaset.FromSet(set), metav1.UpdateOptions{}))
		return
	}
	testcheck.Must(w.User.AppsV1().ReplicaSets("default").Update(ctx, set, metav1.UpdateOptions{}))
}

func (w *world) deleteSet(how metav1.DeletionPropagation) {
	w.Helper()
	opts := metav1.DeleteOptions{PropagationPolicy: &how}
	if w.cfg.ReplicationControllers {
		w.NoError(w.User.CoreV1().ReplicationControllers("default").Delete(ctx, "web", opts))
		return
	}
	w.NoError(w.User.AppsV1().ReplicaSets("default").Delete(ctx, "web", opts))
}

// createPod creates an orphan with the labels of the set.
func (w *world) createPod(name string, change ...func(*corev1.Pod)) {
	w.Helper()
	template := newSet(1).Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels}, Spec: template.Spec}
	for _, f := range change {
		f(pod)
	}
	testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
}

// pods returns the pods, by name.
func (w *world) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.Server.List("pods") {
		pods = append(pods, obj.(*corev1.Pod).DeepCopy())
	}
	return pods
}

// editPod changes a pod and its status.
func (w *world) editPod(name string, change func(*corev1.Pod)) {
	w.Helper()
	pod := testcheck.Must(w.User.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}))
	change(pod)
	stored := testcheck.Must(w.User.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}))
	pod.ResourceVersion = stored.ResourceVersion
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}

func (w *world) deletePod(name string) {
	w.Helper()
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
}

// counts returns the numbers of pods: active ones of the set, ending ones, and others.
func (w *world) counts() string {
	var active, ending, others int
	for _, pod := range w.pods() {
		switch ref := metav1.GetControllerOf(pod); {
		case ref == nil || ref.Kind != w.kind():
			others++
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			ending++
		default:
			active++
		}
	}
	return fmt.Sprint(active, ending, others)
}

// want runs the world and compares counts.
func (w *world) want(counts, when string) {
	w.Helper()
	w.Run()
	if got := w.counts(); got != counts {
		w.Fatalf("%s: %q, want %q\n%s", when, got, counts, w.Host.Log().Text())
	}
}

// status returns the counts of the set: replicas, fully labelled, ready, available, terminating.
func (w *world) status() string {
	s := w.set().Status
	return fmt.Sprint(s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, ptr.Deref(s.TerminatingReplicas, 0))
}

// requests returns the controller's requests of a verb and resource, with the reason of a failure.
func (w *world) requests(verb, resource string) []string {
	var all []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, "replicaset/repli") && r.Verb == verb &&
			strings.HasPrefix(r.Object, resource+"/") {
			text := r.Object
			if r.Err != nil {
				text += ": " + string(apierrors.ReasonForError(r.Err))
			}
			all = append(all, text)
		}
	}
	return all
}

// messages returns the controller's events. Generated names end with a star.
func (w *world) messages() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		text := e.Message
		if i := strings.Index(text, "web-"); i >= 0 {
			text = text[:i] + "web-*"
		}
		if e.Source.Component == w.source() && e.InvolvedObject.Kind == w.kind() {
			all = append(all, e.Type+" "+e.Reason+" "+text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
