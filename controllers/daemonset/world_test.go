package daemonset_test

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
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/daemonset"
	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a server with a DaemonSet controller, a scheduler, a garbage collector, and a kubelet that
// makes pods ready and ends those that are deleted.
type world struct {
	*testworld.World

	cfg        daemonset.Config // switches of the controller
	controller *sim.Process
	broken     string                          // the image whose pods do not become ready
	deaf       bool                            // the kubelet ends no pods
	fail       func(action trace.Action) error // fails requests of the controller, if not nil
	most       int                             // pods of one node at one time that are not being deleted
	fewest     int                             // ready pods at one time, since watch
}

// newWorld returns a world whose controller has the switches of cfg, with so many nodes.
func newWorld(t testing.TB, chooser sim.Chooser, nodes int, cfg ...daemonset.Config) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 50_000})}
	for _, cfg := range cfg {
		w.cfg = cfg
	}
	w.StartKubelet(func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" || w.deaf && pod.DeletionTimestamp != nil ||
			pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == w.broken
	})
	process := w.Host.Process("garbagecollector")
	client := w.Server.Client(process)
	garbagecollector.New(garbagecollector.Config{
		Process: process, Client: client.Metadata(), Watcher: w.Server.MetadataWatcher(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: garbagecollector.EventSource}),
	})
	process = w.Host.Process("scheduler")
	client = w.Server.Client(process)
	testcheck.Must(scheduler.New(scheduler.Config{
		Process: process, Client: client, Informers: w.Server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: "default-scheduler"}),
	}))
	w.start()
	for i := range nodes {
		w.createNode(fmt.Sprintf("node-%d", i+1))
	}
	w.Server.OnCommit(func(c fake.Commit) {
		if c.Resource != "pods" {
			return
		}
		ready, on := 0, map[string]int{}
		for _, pod := range w.pods() {
			if pod.DeletionTimestamp != nil {
				continue
			}
			if pod.Status.Phase == corev1.PodRunning {
				ready++
			}
			if node := target(pod); node != "" {
				on[node]++
				w.most = max(w.most, on[node])
			}
		}
		w.fewest = min(w.fewest, ready)
	})
	return w
}

// watch begins to count pods.
func (w *world) watch() { w.most, w.fewest = 0, 1000 }

// start starts the controller.
func (w *world) start() {
	w.controller = w.Host.Process("daemonset")
	var seen informers.SharedInformerFactory
	concerns := func(old, obj fake.Object) bool { return daemonset.Concerns(seen, old, obj) }
	seen = w.Server.Informers(w.controller, fake.Filter{Resource: "pods", Match: concerns},
		fake.Filter{Resource: "nodes", Match: concerns}, fake.Filter{Resource: "controllerrevisions", Match: concerns})
	client := w.Server.Client(testworld.FailingCaller{Caller: w.controller, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	cfg := w.cfg
	cfg.Process, cfg.Client, cfg.Informers = w.controller, client, seen
	cfg.Recorder = events.New(events.Config{Process: w.controller, Client: client, Source: daemonset.EventSource})
	daemonset.New(cfg)
}

// crash ends the controller's process, and starts another.
func (w *world) crash() {
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.start()
}

// target returns the node of a pod, or the one for which it was created.
func target(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil {
		return pod.Spec.NodeName
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// newSet returns the set "web", whose pods have the image 1.
func newSet(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "1"}}},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func image(image string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func (w *world) create(set *appsv1.DaemonSet) {
	w.Helper()
	testcheck.Must(w.User.AppsV1().DaemonSets("default").Create(ctx, set, metav1.CreateOptions{}))
}

func (w *world) set() *appsv1.DaemonSet {
	w.Helper()
	return testcheck.Must(w.User.AppsV1().DaemonSets("default").Get(ctx, "web", metav1.GetOptions{}))
}

// edit changes the set.
func (w *world) edit(change ...func(*appsv1.DaemonSet)) {
	w.Helper()
	set := w.set()
	for _, f := range change {
		f(set)
	}
	testcheck.Must(w.User.AppsV1().DaemonSets("default").Update(ctx, set, metav1.UpdateOptions{}))
}

func (w *world) deleteSet(how metav1.DeletionPropagation) {
	w.Helper()
	w.NoError(w.User.AppsV1().DaemonSets("default").Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &how}))
}

// createNode creates a node that is ready.
func (w *world) createNode(name string, change ...func(*corev1.Node)) {
	w.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(node)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	testcheck.Must(w.User.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}))
}

func (w *world) editNode(name string, change func(*corev1.Node)) {
	w.Helper()
	node := testcheck.Must(w.User.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	change(node)
	testcheck.Must(w.User.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}))
}

func taint(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: effect}} }
}

func label(value string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels = map[string]string{"role": value} }
}

// createPod creates a pod with the labels of the set on a node.
func (w *world) createPod(name, node string, change ...func(*corev1.Pod)) {
	w.Helper()
	template := newSet().Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.NodeName = node
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

// podOn returns a pod of a node that is not being deleted.
func (w *world) podOn(node string) *corev1.Pod {
	w.Helper()
	for _, pod := range w.pods() {
		if target(pod) == node && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	w.Fatalf("no pod on %s", node)
	return nil
}

func (w *world) editStatus(pod *corev1.Pod, change func(*corev1.Pod)) {
	w.Helper()
	pod = testcheck.Must(w.User.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{}))
	change(pod)
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}

func (w *world) deletePod(name string) {
	w.Helper()
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
}

// places returns where the pods of the set are, and their images: "1:1 2:1" are pods of image 1 on the
// nodes 1 and 2. A pod that is being deleted has a minus, an orphan a question mark, one without a node
// a star.
func (w *world) places() string {
	var all []string
	for _, pod := range w.pods() {
		text := strings.TrimPrefix(target(pod), "node-") + ":" + pod.Spec.Containers[0].Image
		if pod.DeletionTimestamp != nil {
			text += "-"
		}
		if ref := metav1.GetControllerOf(pod); ref == nil || ref.Kind != "DaemonSet" {
			text += "?"
		}
		if pod.Spec.NodeName == "" {
			text += "*"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// want runs the world and compares places.
func (w *world) want(places, when string) {
	w.Helper()
	w.Run()
	if got := w.places(); got != places {
		w.Fatalf("%s: %q, want %q\n%s", when, got, places, w.Host.Log().Text())
	}
}

// status returns the counts of the set: desired, current, misscheduled, ready, updated, available,
// unavailable.
func (w *world) status() string {
	s := w.set().Status
	return fmt.Sprint(s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.NumberReady,
		s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberUnavailable)
}

// revisions returns the revisions of the set, by number: number and image.
func (w *world) revisions() string {
	objects := w.Server.List("controllerrevisions")
	slices.SortFunc(objects, func(a, b fake.Object) int {
		return int(a.(*appsv1.ControllerRevision).Revision - b.(*appsv1.ControllerRevision).Revision)
	})
	var all []string
	for _, obj := range objects {
		r := obj.(*appsv1.ControllerRevision)
		_, rest, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
		name, _, _ := strings.Cut(rest, `"`)
		text := fmt.Sprintf("%d:%s", r.Revision, name)
		if metav1.GetControllerOf(r) == nil {
			text += "?"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// requests returns the controller's requests of a verb and resource, with the reason of a failure.
func (w *world) requests(verb, resource string) []string {
	var all []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, "daemonset/daemonset") && r.Verb == verb &&
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
		before, after, found := strings.Cut(e.Message, "web-")
		text := before
		if found {
			text += "web-*" + strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz0123456789")
		}
		if e.Source.Component == daemonset.EventSource {
			all = append(all, e.Type+" "+e.Reason+" "+text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func surge(n string) func(*appsv1.DaemonSet) { return strategy("0", n) }

// strategy returns a change to a rolling update.
func strategy(unavailable, surge string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(parse(unavailable)), MaxSurge: ptr.To(parse(surge))},
		}
	}
}
