package deployment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/deployment"
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

// world is a server with the controllers of Deployments and ReplicaSets, a garbage collector, and a
// kubelet that makes pods ready and ends those that are deleted.
type world struct {
	*testworld.World

	cfg        deployment.Config // switches of the controller
	controller *sim.Process
	broken     string                          // the image whose pods do not become ready
	most       int32                           // replicas of all sets at one time, since watch
	fewest     int                             // ready pods at one time, since watch
	fail       func(action trace.Action) error // fails requests of the controller, if not nil
	noPods     bool                            // no pods can be created
}

// newWorld returns a world whose controller has the switches of cfg.
func newWorld(t testing.TB, chooser sim.Chooser, cfg ...deployment.Config) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 50_000})}
	for _, cfg := range cfg {
		w.cfg = cfg
	}
	w.StartKubelet(func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == w.broken
	})
	process := w.Host.Process("garbagecollector")
	client := w.Server.Client(process)
	garbagecollector.New(garbagecollector.Config{
		Process: process, Client: client.Metadata(), Watcher: w.Server.MetadataWatcher(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: garbagecollector.EventSource}),
	})
	process = w.Host.Process("replicaset")
	client = w.Server.Client(testworld.FailingCaller{Caller: process, Fail: func(action trace.Action) error {
		if w.noPods && action.Verb == "create" && strings.HasPrefix(action.Object, "pods/") {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("quota"))
		}
		return nil
	}})
	replicaset.New(replicaset.Config{
		Process: process, Client: client, Informers: w.Server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: replicaset.EventSource}),
	})
	w.start()
	w.Server.OnCommit(func(c fake.Commit) {
		if c.Resource != "pods" && c.Resource != "replicasets" {
			return
		}
		ready, replicas := 0, int32(0)
		for _, pod := range w.pods() {
			if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
				ready++
			}
		}
		for _, obj := range w.Server.List("replicasets") {
			replicas += *obj.(*appsv1.ReplicaSet).Spec.Replicas
		}
		w.most, w.fewest = max(w.most, replicas), min(w.fewest, ready)
	})
	return w
}

// watch begins to count replicas and pods.
func (w *world) watch() { w.most, w.fewest = 0, 1000 }

// start starts the controller.
func (w *world) start() {
	w.controller = w.Host.Process("deployment")
	var seen informers.SharedInformerFactory
	concerns := func(old, obj fake.Object) bool { return deployment.Concerns(seen, old, obj) }
	seen = w.Server.Informers(w.controller,
		fake.Filter{Resource: "replicasets", Match: concerns}, fake.Filter{Resource: "pods", Match: concerns})
	client := w.Server.Client(testworld.FailingCaller{Caller: w.controller, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	cfg := w.cfg
	cfg.Process, cfg.Client, cfg.Informers = w.controller, client, seen
	cfg.Recorder = events.New(events.Config{Process: w.controller, Client: client, Source: deployment.EventSource})
	deployment.New(cfg)
}

// crash ends the controller's process, and starts another.
func (w *world) crash() {
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.start()
}

// newDeployment returns the Deployment "web", whose pods have the image 1.
func newDeployment(replicas int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "1"}}},
			},
		},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func replicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

func image(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

func paused(on bool) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Paused = on }
}

func recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

func rolling(surge, unavailable string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.Parse(surge)), MaxUnavailable: ptr.To(intstr.Parse(unavailable)),
			},
		}
	}
}

func history(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n }
}

func (w *world) create(d *appsv1.Deployment) {
	w.Helper()
	testcheck.Must(w.User.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}))
}

func (w *world) get() *appsv1.Deployment {
	w.Helper()
	return testcheck.Must(w.User.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{}))
}

// edit changes the Deployment.
func (w *world) edit(change ...func(*appsv1.Deployment)) {
	w.Helper()
	d := w.get()
	for _, f := range change {
		f(d)
	}
	testcheck.Must(w.User.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{}))
}

func (w *world) delete(how metav1.DeletionPropagation) {
	w.Helper()
	w.NoError(w.User.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &how}))
}

// sets returns the ReplicaSets, by image.
func (w *world) sets() []*appsv1.ReplicaSet {
	var sets []*appsv1.ReplicaSet
	for _, obj := range w.Server.List("replicasets") {
		sets = append(sets, obj.(*appsv1.ReplicaSet).DeepCopy())
	}
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return strings.Compare(a.Spec.Template.Spec.Containers[0].Image+a.Name, b.Spec.Template.Spec.Containers[0].Image+b.Name)
	})
	return sets
}

func (w *world) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.Server.List("pods") {
		pods = append(pods, obj.(*corev1.Pod))
	}
	return pods
}

// sizes returns image, revision and existing pods of each set: "1@1=0 2@2=3".
func (w *world) sizes() string {
	var out []string
	for _, set := range w.sets() {
		text := fmt.Sprintf("%s@%s=%d", set.Spec.Template.Spec.Containers[0].Image,
			set.Annotations["deployment.kubernetes.io/revision"], set.Status.Replicas)
		if metav1.GetControllerOf(set) == nil {
			text += " orphan"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// want runs the world and compares sizes.
func (w *world) want(sizes, when string) {
	w.Helper()
	w.Run()
	if got := w.sizes(); got != sizes {
		w.Fatalf("%s: %q, want %q\n%s", when, got, sizes, w.Host.Log().Text())
	}
}

// status returns the counts of the Deployment: replicas, updated, ready, available, unavailable.
func (w *world) status() string {
	s := w.get().Status
	return fmt.Sprint(s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas)
}

// condition returns status and reason of a condition.
func (w *world) condition(kind appsv1.DeploymentConditionType) string {
	for _, c := range w.get().Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// messages returns the controller's events, with the images of sets instead of their names.
func (w *world) messages() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		text := e.Message
		for _, set := range w.sets() {
			text = strings.ReplaceAll(text, set.Name, "image "+set.Spec.Template.Spec.Containers[0].Image)
		}
		if e.Source.Component == deployment.EventSource {
			all = append(all, e.Type+" "+e.Reason+" "+text)
		}
	}
	slices.Sort(all)
	return all
}
