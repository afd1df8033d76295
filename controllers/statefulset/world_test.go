package statefulset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/statefulset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a server with a StatefulSet controller, a garbage collector, and a kubelet that makes all
// pods ready and ends those that are deleted.
type world struct {
	*testworld.World

	cfg        statefulset.Config // switches of the controller
	controller *sim.Process
	deaf       map[string]bool                 // pods that the kubelet does nothing for
	fail       func(action trace.Action) error // fails requests of the controller, if not nil
}

// newWorld returns a world whose controller has the switches of cfg.
func newWorld(t testing.TB, chooser sim.Chooser, cfg ...statefulset.Config) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}), deaf: map[string]bool{}}
	for _, cfg := range cfg {
		w.cfg = cfg
	}
	w.StartKubelet(func(pod *corev1.Pod) bool { return w.deaf[pod.Name] })
	w.startCollector()
	w.start()
	return w
}

// start starts the controller.
func (w *world) start() {
	w.controller = w.Host.Process("statefulset")
	var seen informers.SharedInformerFactory
	seen = w.Server.Informers(w.controller,
		fake.Filter{Resource: "pods", Match: func(old, obj fake.Object) bool {
			return old != nil && statefulset.ConcernsPod(seen, old.(*corev1.Pod)) ||
				obj != nil && statefulset.ConcernsPod(seen, obj.(*corev1.Pod))
		}},
		fake.Filter{Resource: "persistentvolumeclaims", Match: func(old, obj fake.Object) bool {
			before, _ := old.(*corev1.PersistentVolumeClaim)
			after, _ := obj.(*corev1.PersistentVolumeClaim)
			return statefulset.ConcernsClaim(seen, before, after)
		}})
	client := w.Server.Client(testworld.FailingCaller{Caller: w.controller, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	cfg := w.cfg
	cfg.Process, cfg.Client, cfg.Informers = w.controller, client, seen
	cfg.Recorder = events.New(events.Config{Process: w.controller, Client: client, Source: statefulset.EventSource})
	statefulset.New(cfg)
}

// crash ends the controller's process, and starts another.
func (w *world) crash() {
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.start()
}

func (w *world) startCollector() {
	process := w.Host.Process("garbagecollector")
	client := w.Server.Client(process)
	garbagecollector.New(garbagecollector.Config{
		Process: process, Client: client.Metadata(), Watcher: w.Server.MetadataWatcher(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: garbagecollector.EventSource}),
	})
}

// newSet returns the set "web" with a claim template "data".
func newSet(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeName:   "node-1",
					Containers: []corev1.Container{{Name: "main", Image: "image:1"}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				},
			}},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

// retains returns a change of the policy: what happens to claims when the set is deleted and scaled.
func retains(whenDeleted, whenScaled string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(whenDeleted),
			WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(whenScaled),
		}
	}
}

func replicas(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

func image(name string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = name }
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n},
		}
	}
}

func (w *world) create(set *appsv1.StatefulSet) {
	w.Helper()
	testcheck.Must(w.User.AppsV1().StatefulSets("default").Create(ctx, set, metav1.CreateOptions{}))
}

func (w *world) set() *appsv1.StatefulSet {
	w.Helper()
	return testcheck.Must(w.User.AppsV1().StatefulSets("default").Get(ctx, "web", metav1.GetOptions{}))
}

// edit changes the set.
func (w *world) edit(change ...func(*appsv1.StatefulSet)) {
	w.Helper()
	set := w.set()
	for _, f := range change {
		f(set)
	}
	testcheck.Must(w.User.AppsV1().StatefulSets("default").Update(ctx, set, metav1.UpdateOptions{}))
}

func (w *world) deleteSet(how metav1.DeletionPropagation) {
	w.Helper()
	w.NoError(w.User.AppsV1().StatefulSets("default").Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &how}))
}

func (w *world) deletePod(name string) {
	w.Helper()
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	return testcheck.Must(w.User.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}))
}

// editPod changes a pod or its status.
func (w *world) editPod(name string, change func(*corev1.Pod)) {
	w.Helper()
	pod := w.pod(name)
	change(pod)
	stored := testcheck.Must(w.User.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}))
	pod.ResourceVersion = stored.ResourceVersion
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}

// names returns the names of the pods with their images, and of the claims with their owners:
// "web-0=image:1 | data-web-0>web".
func (w *world) names() string {
	var pods, claims []string
	for _, obj := range w.Server.List("pods") {
		pod := obj.(*corev1.Pod)
		text := pod.Name + "=" + strings.TrimPrefix(pod.Spec.Containers[0].Image, "image:")
		if metav1.GetControllerOf(pod) == nil {
			text += " orphan"
		}
		pods = append(pods, text)
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		text := obj.GetName()
		for _, ref := range obj.GetOwnerReferences() {
			text += ">" + ref.Name
		}
		claims = append(claims, text)
	}
	return strings.Join(pods, " ") + " | " + strings.Join(claims, " ")
}

// want runs the world and compares names.
func (w *world) want(names, when string) {
	w.Helper()
	w.Run()
	if got := w.names(); got != names {
		w.Fatalf("%s: %q, want %q\n%s", when, got, names, w.Host.Log().Text())
	}
}

// status returns the counts of the set: replicas, ready, available, current, updated.
func (w *world) status() string {
	s := w.set().Status
	return fmt.Sprint(s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas)
}

// writes returns the controller's requests that write pods and claims, as "create pods/web-0", with
// the reason of a failure.
func (w *world) writes(verbs ...string) []string {
	var all []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind != trace.KindAPI || !strings.HasPrefix(r.Task, "statefulset/statefulset") || r.Verb == "get" {
			continue
		}
		resource, name, _ := strings.Cut(r.Object, "/default/")
		if resource != "pods" && resource != "persistentvolumeclaims" ||
			len(verbs) > 0 && !slices.Contains(verbs, r.Verb) {
			continue
		}
		text := r.Verb + " " + name
		if r.Err != nil {
			text += ": " + string(apierrors.ReasonForError(r.Err))
		}
		all = append(all, text)
	}
	return all
}

// messages returns the controller's events.
func (w *world) messages() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		if e.Source.Component == statefulset.EventSource {
			all = append(all, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	slices.Sort(all)
	return all
}

// revisions returns the numbers and the images of the set's revisions.
func (w *world) revisions() string {
	var all []string
	for _, obj := range w.Server.List("controllerrevisions") {
		r := obj.(*appsv1.ControllerRevision)
		_, after, _ := strings.Cut(string(r.Data.Raw), `"image":"image:`)
		text, _, _ := strings.Cut(after, `"`)
		all = append(all, fmt.Sprintf("%d=%s", r.Revision, text))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
