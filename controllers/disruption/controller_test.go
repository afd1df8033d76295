package disruption_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/disruption"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

var (
	ctx = context.Background()
	web = map[string]string{"app": "web"}
)

type world struct {
	*testworld.World
	process *sim.Process
	by      []fake.InterceptorFunc // of the controller's requests
}

func newWorld(t testing.TB, by ...fake.InterceptorFunc) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 3000}), by: by}
	w.start()
	return w
}

// start starts the controller; it may run already.
func (w *world) start() {
	if w.process != nil {
		w.Host.Crash(w.process)
		w.Server.RemoveComponent(w.process)
	}
	w.process = w.Host.Process("disruption")
	own := w.Server.Client(w.process)
	for _, by := range w.by {
		own = own.WithInterceptor(by)
	}
	disruption.New(disruption.Config{
		Process: w.process, Client: own, Informers: w.Server.Informers(w.process), Dynamic: own.Dynamic(), Discover: own.ServerPreferredNamespacedResources,
		Recorder: events.New(events.Config{Process: w.process, Client: own, Source: disruption.EventSource}),
	})
}

// controlledBy makes an object the controller of a pod.
func controlledBy(owner fake.Object) func(*corev1.Pod) {
	kinds := map[string]string{"*v1.StatefulSet": "StatefulSet", "*v1.ReplicaSet": "ReplicaSet", "*v1.ReplicationController": "ReplicationController", "*v1.DaemonSet": "DaemonSet"}
	kind, version := kinds[fmt.Sprintf("%T", owner)], "apps/v1"
	if kind == "ReplicationController" {
		version = "v1"
	}
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}}
	}
}

func unready(pod *corev1.Pod) { pod.Status.Conditions = nil }

// pods stores running, ready pods.
func (w *world) pods(names string, change ...func(*corev1.Pod)) {
	w.Helper()
	for name := range strings.FieldsSeq(names) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: web},
			Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
		for _, f := range change {
			f(pod)
		}
		w.NoError(w.Server.Add(pod))
	}
}

func least(value string) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = ptr.To(intstr.Parse(value)) }
}

func most(value string) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.Parse(value)) }
}

func (w *world) budget(name string, change ...func(*policyv1.PodDisruptionBudgetSpec)) {
	w.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: web}
	for _, f := range change {
		f(&b.Spec)
	}
	_, err := w.User.PolicyV1().PodDisruptionBudgets("default").Create(ctx, b, metav1.CreateOptions{})
	w.NoError(err)
}

func (w *world) status(name string) policyv1.PodDisruptionBudgetStatus {
	w.Helper()
	obj, ok := w.Server.Get("poddisruptionbudgets", "default", name)
	if !ok {
		w.Fatalf("no budget %s", name)
	}
	return obj.(*policyv1.PodDisruptionBudget).Status
}

// expect runs the world and compares the status of a budget: allowed, healthy, desired, expected.
func (w *world) expect(name string, want ...int32) {
	w.Helper()
	w.NoError(w.Host.Run())
	s := w.status(name)
	if got := []int32{s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods}; !slices.Equal(got, want) {
		w.Errorf("allowed, healthy, desired, expected: got %v, want %v; conditions %v", got, want, s.Conditions)
	}
}

func (w *world) evict(name string) error {
	return w.User.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// reasons returns the reasons of events, sorted.
func (w *world) reasons() string {
	var all []string
	for _, e := range w.Server.List("events") {
		all = append(all, e.(*corev1.Event).Reason)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

func (w *world) set(name string, replicas int32) *appsv1.StatefulSet {
	w.Helper()
	s, err := w.User.AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()},
	}, metav1.CreateOptions{})
	w.NoError(err)
	return s
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

// Without pods nothing is allowed, and an event says so.
func TestNoPods(t *testing.T) {
	w := newWorld(t)
	w.budget("b", least("2"))
	w.expect("b", 0, 0, 2, 0)
	if got := w.reasons(); got != "NoPods" {
		t.Errorf("events %s", got)
	}
	w.pods("a c d")
	w.expect("b", 1, 3, 2, 3)
	s := w.status("b")
	if s.ObservedGeneration != 1 || len(s.Conditions) != 1 || s.Conditions[0].Reason != policyv1.SufficientPodsReason || s.Conditions[0].ObservedGeneration != 1 {
		t.Errorf("got %v", s)
	}
}

// A budget without a selector selects nothing, one with an empty selector everything.
func TestSelectors(t *testing.T) {
	w := newWorld(t)
	w.pods("a c")
	w.budget("none", least("1"), func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = nil })
	w.budget("all", least("1"), func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = &metav1.LabelSelector{} })
	w.expect("none", 0, 0, 1, 0)
	w.expect("all", 1, 2, 1, 2)
}

// Unready and deleted pods are not healthy.
func TestUnavailable(t *testing.T) {
	w := newWorld(t)
	w.pods("a c")
	w.pods("d", unready)
	w.budget("b", least("1"))
	w.expect("b", 1, 2, 1, 3)
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}))
	w.expect("b", 0, 1, 1, 3)
}

func TestScales(t *testing.T) {
	t.Run("StatefulSet", func(t *testing.T) {
		w := newWorld(t)
		set := w.set("web", 4)
		w.pods("web-0 web-1 web-2", controlledBy(set))
		w.budget("number", most("2"))
		w.budget("share", least("50%"), func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = &metav1.LabelSelector{} })
		w.expect("number", 1, 3, 2, 4)
		w.budget("percent", most("50%"))
		w.expect("percent", 1, 3, 2, 4)
		w.expect("share", 1, 3, 2, 4)
		_, err := w.User.AppsV1().StatefulSets("default").Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
		w.NoError(err)
		w.pods("other", controlledBy(set)) // a change of the pods lets the budget be counted again
		w.expect("number", 4, 4, 0, 2)
	})
	t.Run("ReplicaSets of a Deployment", func(t *testing.T) {
		w := newWorld(t)
		apps := w.User.AppsV1()
		d, err := apps.Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](10), Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()},
		}, metav1.CreateOptions{})
		w.NoError(err)
		for _, name := range []string{"old", "new"} {
			rs, err := apps.ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: d.UID, Controller: ptr.To(true)}}},
				Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](7), Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()},
			}, metav1.CreateOptions{})
			w.NoError(err)
			w.pods(name+"-a "+name+"-b", controlledBy(rs))
		}
		w.budget("b", most("8"))
		w.expect("b", 2, 4, 2, 10)
	})
	t.Run("ReplicaSet and ReplicationController", func(t *testing.T) {
		w := newWorld(t)
		rs, err := w.User.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "rs"}, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()},
		}, metav1.CreateOptions{})
		w.NoError(err)
		rc, err := w.User.CoreV1().ReplicationControllers("default").Create(ctx, &corev1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: "rc"}, Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](3), Selector: web, Template: ptr.To(template())},
		}, metav1.CreateOptions{})
		w.NoError(err)
		w.pods("a c", controlledBy(rs))
		w.pods("d", controlledBy(rc))
		w.budget("b", most("3"))
		w.expect("b", 1, 3, 2, 5)
	})
	t.Run("the ReplicaSet of a Deployment that is gone", func(t *testing.T) {
		w := newWorld(t)
		rs, err := w.User.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "rs", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "1", Controller: ptr.To(true)}}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()},
		}, metav1.CreateOptions{})
		w.NoError(err)
		w.pods("a c", controlledBy(rs))
		w.budget("b", most("2")) // its scale is read from the API server
		w.expect("b", 1, 2, 1, 3)
	})
	t.Run("a controller without scale", func(t *testing.T) {
		w := newWorld(t)
		ds, err := w.User.AppsV1().DaemonSets("default").Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()},
		}, metav1.CreateOptions{})
		w.NoError(err)
		w.pods("a", controlledBy(ds))
		w.budget("b", most("1"))
		w.expect("b", 0, 0, 0, 0)
		s := w.status("b")
		if s.Conditions[0].Reason != policyv1.SyncFailedReason || s.Conditions[0].Message != "daemonsets.apps does not implement the scale subresource" || w.reasons() != "CalculateExpectedPodCountFailed" {
			t.Errorf("got %v, events %s", s.Conditions, w.reasons())
		}
	})
	t.Run("a controller that is gone", func(t *testing.T) {
		w := newWorld(t)
		w.pods("a", controlledBy(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}))
		w.budget("b", most("1"))
		w.expect("b", 0, 0, 0, 0)
		if s := w.status("b"); s.Conditions[0].Message != `found no controllers for pod "a"` {
			t.Errorf("got %v", s.Conditions)
		}
	})
	t.Run("a kind that is not served", func(t *testing.T) {
		w := newWorld(t)
		w.pods("a", func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "d", UID: "1", Controller: ptr.To(true)}}
		})
		w.budget("b", most("1"))
		w.expect("b", 0, 0, 0, 0)
		if s := w.status("b"); s.Conditions[0].Message != `no matches for kind "Database" in version "example.com/v1"` {
			t.Errorf("got %v", s.Conditions)
		}
	})
	t.Run("no controller", func(t *testing.T) {
		w := newWorld(t)
		w.pods("a")
		w.budget("b", most("1"))
		w.expect("b", 0, 1, 0, 0)
		if got := w.reasons(); got != "UnmanagedPods" {
			t.Errorf("events %s", got)
		}
	})
}

// An evicted pod is disrupted until its deletion was seen.
func TestEvictions(t *testing.T) {
	w := newWorld(t)
	w.pods("a c d")
	w.budget("b", least("1"))
	w.expect("b", 2, 3, 1, 3)
	w.NoError(w.evict("a"))
	if s := w.status("b"); s.DisruptionsAllowed != 1 || len(s.DisruptedPods) != 1 {
		t.Errorf("got %v", s)
	}
	w.NoError(w.evict("c"))
	if err := w.evict("d"); err == nil || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("got %v, want that the budget refuses", err)
	}
	w.expect("b", 0, 1, 1, 3)
	if s := w.status("b"); len(s.DisruptedPods) > 0 {
		t.Errorf("got %v", s)
	}
}

// A pod that was to be deleted, and is not, counts again after two minutes.
func TestNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.pods("a c d")
	w.budget("b", least("1"))
	w.expect("b", 2, 3, 1, 3)
	budgets := w.User.PolicyV1().PodDisruptionBudgets("default")
	b, err := budgets.Get(ctx, "b", metav1.GetOptions{})
	w.NoError(err)
	now := w.Host.Now()
	b.Status.DisruptedPods = map[string]metav1.Time{"a": {Time: now.Add(-3 * time.Minute)}, "c": {Time: now}, "gone": {Time: now}}
	_, err = budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{})
	w.NoError(err)
	for w.status("b").CurrentHealthy == 3 && w.Host.Step() {
	}
	if s := w.status("b"); s.CurrentHealthy != 2 || len(s.DisruptedPods) != 1 {
		t.Errorf("got %v", s)
	}
	w.expect("b", 2, 3, 1, 3)
	if got := w.reasons(); got != "NotDeleted" {
		t.Errorf("events %s", got)
	}
	if took := w.Host.Now().Sub(now); took < 2*time.Minute || took > 3*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// A conflict is retried and leaves no condition; other conditions stay.
func TestConflict(t *testing.T) {
	conflicts := 0
	w := newWorld(t, func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "update" && r.Resource.Resource == "poddisruptionbudgets" && conflicts < 2 {
			conflicts++
			return nil, apierrors.NewConflict(r.Resource.GroupResource(), r.Name, errors.New("it was modified"))
		}
		return serve()
	})
	w.pods("a")
	w.budget("b", least("1"))
	budgets := w.User.PolicyV1().PodDisruptionBudgets("default")
	b, err := budgets.Get(ctx, "b", metav1.GetOptions{})
	w.NoError(err)
	b.Status.Conditions = []metav1.Condition{{Type: "example.com/Checked", Status: metav1.ConditionTrue, Reason: "Once", LastTransitionTime: metav1.NewTime(w.Host.Now())}}
	_, err = budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{})
	w.NoError(err)
	w.expect("b", 0, 1, 1, 1)
	if s := w.status("b"); conflicts != 2 || len(s.Conditions) != 2 || s.Conditions[1].Reason != policyv1.InsufficientPodsReason {
		t.Errorf("%d conflicts, conditions %v", conflicts, s.Conditions)
	}
}

func TestTwoBudgets(t *testing.T) {
	w := newWorld(t)
	w.budget("b", least("1"))
	w.budget("c", least("1"))
	w.NoError(w.Host.Run())
	w.pods("a")
	w.expect("b", 0, 1, 1, 1)
	w.expect("c", 0, 0, 1, 0)
	if got := w.reasons(); got != "MultiplePodDisruptionBudgets NoPods" {
		t.Errorf("events %s", got)
	}
}

// The mark of a disruption is reset two minutes later, unless the pod is being deleted, has ended, or
// is the kubelet's.
func TestStalePodDisruption(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   corev1.ConditionStatus
	}{
		{"stale-condition", func(*corev1.Pod) {}, corev1.ConditionFalse},
		{"pod-with-deletion-timestamp", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: sim.Epoch.Add(time.Hour)}, ptr.To[int64](3600)
		}, corev1.ConditionTrue},
		{"pod-phase-failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, corev1.ConditionTrue},
		{"disruption-condition-by-kubelet", func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonTerminationByKubelet }, corev1.ConditionTrue},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.pods("a", func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.Host.Now())}}
				test.change(p)
			})
			w.NoError(w.Host.Run())
			obj, _ := w.Server.Get("pods", "default", "a")
			if got := obj.(*corev1.Pod).Status.Conditions[0].Status; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Wherever the controller crashes, the budget is counted, and evictions stay within it.
func TestCrashAnywhere(t *testing.T) {
	for step := 1; ; step++ {
		w := newWorld(t)
		w.pods("a c d")
		w.budget("b", least("2"))
		steps := 0
		for steps < step && w.Host.Step() {
			steps++
		}
		w.start()
		w.expect("b", 1, 3, 2, 3)
		w.NoError(w.evict("a"))
		if err := w.evict("c"); err == nil {
			t.Errorf("step %d: two evictions", step)
		}
		w.expect("b", 0, 2, 2, 3)
		if steps < step {
			return
		}
	}
}
