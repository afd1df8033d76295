package statefulset_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/statefulset"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestOrderedSetWaits: nothing happens after a pod that is not ready, is ending, or has been deleted
// by a user, until it is replaced and ready.
func TestOrderedSetWaits(t *testing.T) {
	for name, disturb := range map[string]func(w *world){
		"pending": func(w *world) { w.editPod("web-0", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodUnknown }) },
		"not ready": func(w *world) {
			w.editPod("web-0", func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse })
		},
		"terminating": func(w *world) { w.deletePod("web-0") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, replicasWanted := range []int32{1, 3} {
				w := newWorld(t, nil)
				w.create(newSet(2))
				w.Run()
				w.deaf["web-0"] = true
				disturb(w)
				w.edit(replicas(replicasWanted))
				w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "disturbed")
			}
			w := newWorld(t, nil)
			w.create(newSet(2, parallel))
			w.Run()
			w.deaf["web-0"] = true
			disturb(w)
			w.edit(replicas(3))
			w.want("web-0=1 web-1=1 web-2=1 | data-web-0 data-web-1 data-web-2", "a parallel set does not wait")
		})
	}
}

// TestStatusIsWrittenDespiteFailures: the status tells what there is, while no pod can be created.
func TestStatusIsWrittenDespiteFailures(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(2, parallel))
	w.Run()
	w.fail = func(action trace.Action) error {
		if action.Verb == "create" && strings.HasPrefix(action.Object, "pods/") {
			return apierrors.NewServiceUnavailable("full")
		}
		return nil
	}
	w.deletePod("web-1")
	w.edit(replicas(3))
	w.Until("the status", func() bool { return w.status() == "1 1 1 1 1" && w.set().Status.ObservedGeneration == 2 })
	w.fail = nil
	w.want("web-0=1 web-1=1 web-2=1 | data-web-0 data-web-1 data-web-2", "no failures")
}

// TestEndedPod: a pod that failed or succeeded is deleted and created again.
func TestEndedPod(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		both(t, func(t *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
			w.create(newSet(2, policy))
			w.Run()
			before := w.pod("web-1").UID
			w.editPod("web-1", func(pod *corev1.Pod) { pod.Status.Phase = phase })
			w.want("web-0=1 web-1=1 | data-web-0 data-web-1", string(phase))
			if w.pod("web-1").UID == before {
				t.Fatalf("the pod in phase %s remains", phase)
			}
		})
	}
}

// TestUnavailableCondemnedPod: scaling down waits while two pods beyond the replicas are unavailable, until
// the unavailable pod of the highest ordinal is available.
func TestUnavailableCondemnedPod(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(4))
	w.Run()
	for _, name := range []string{"web-2", "web-3"} {
		w.editPod(name, func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse })
	}
	w.edit(replicas(2))
	w.want("web-0=1 web-1=1 web-2=1 web-3=1 | data-web-0 data-web-1 data-web-2 data-web-3", "web-3 waits for web-2")
	w.editPod("web-3", func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionTrue })
	w.want("web-0=1 web-1=1 | data-web-0 data-web-1 data-web-2 data-web-3", "web-3 is available")
}

// TestPodsOfASetThatIsDeleted: nothing is created while a set waits for its dependents.
func TestPodsOfASetThatIsDeleted(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(2))
	w.Run()
	for _, name := range []string{"web-0", "web-1"} {
		w.deaf[name] = true
	}
	w.deleteSet("Foreground")
	w.edit(replicas(3))
	w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "deleted")
	if got := w.set().Status.ObservedGeneration; got != w.set().Generation {
		t.Errorf("observed generation %d, want %d", got, w.set().Generation)
	}
}

// TestOrphan: pods and revisions outlive a set that is deleted with orphan, and another of its name
// adopts them.
func TestOrphan(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newSet(2))
		w.Run()
		uids := []types.UID{w.pod("web-0").UID, w.pod("web-1").UID}
		w.deleteSet("Orphan")
		w.want("web-0=1 orphan web-1=1 orphan | data-web-0 data-web-1", "orphaned")
		w.create(newSet(2))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "adopted")
		for i, name := range []string{"web-0", "web-1"} {
			if pod := w.pod(name); pod.UID != uids[i] || !metav1.IsControlledBy(pod, w.set()) {
				t.Fatalf("pod %s was not adopted", name)
			}
		}
		revision := w.Server.List("controllerrevisions")
		if len(revision) != 1 || !metav1.IsControlledBy(revision[0], w.set()) {
			t.Fatalf("revisions %v", revision)
		}
	}
}

// TestBelonging: which pods a set adopts and releases.
func TestBelonging(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(1))
	w.Run()
	bare := func(name string, labels map[string]string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels}}
		pod.Spec = newSet(1).Spec.Template.Spec
		return pod
	}
	w.deaf["web-7"], w.deaf["other-1"], w.deaf["web-8"], w.deaf["web-01"] = true, true, true, true
	labels := map[string]string{"app": "web"}
	for _, pod := range []*corev1.Pod{
		bare("other-1", labels), bare("web-8", map[string]string{"app": "other"}), bare("web-01", labels),
	} {
		testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
	}
	w.want("other-1=1 orphan web-0=1 web-01=1 web-8=1 orphan | data-web-0", "orphans of other names and labels; one without an ordinal")
	testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, bare("web-7", labels), metav1.CreateOptions{}))
	w.Run()
	if pod := w.pod("web-7"); pod.DeletionTimestamp == nil {
		t.Errorf("an adopted pod beyond the replicas remains: %+v", pod.ObjectMeta)
	}
	w.editPod("web-0", func(pod *corev1.Pod) { pod.Labels["app"] = "other" })
	w.Run()
	if ref := metav1.GetControllerOf(w.pod("web-0")); ref != nil {
		t.Errorf("the pod was not released: %+v", ref)
	}
	released := w.pod("web-0").UID
	w.deletePod("web-0")
	w.Run()
	if w.pod("web-0").UID == released {
		t.Error("the pod that was in the way is gone, and no other was created")
	}
}

// TestNoAdoptionByADeletedSet: the set is deleted when its cache does not know that yet.
func TestNoAdoptionByADeletedSet(t *testing.T) {
	w := newWorld(t, nil)
	set := newSet(1)
	set.Finalizers = []string{"example.com/hold"}
	w.create(set)
	w.Run()
	w.editPod("web-0", func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	w.Step("statefulset/cache pods")
	w.deleteSet("Background")
	w.Run()
	if ref := metav1.GetControllerOf(w.pod("web-0")); ref != nil {
		t.Errorf("adopted: %+v", ref)
	}
}

// TestIdentity: the labels of a pod are repaired.
func TestIdentity(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(1))
	w.Run()
	w.editPod("web-0", func(pod *corev1.Pod) { delete(pod.Labels, appsv1.StatefulSetPodNameLabel) })
	w.Run()
	if got := w.pod("web-0").Labels[appsv1.StatefulSetPodNameLabel]; got != "web-0" {
		t.Errorf("label %q", got)
	}
	if got := w.messages()[2]; got != "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful" {
		t.Errorf("events %v", w.messages())
	}
}

// TestStaleCache: while a cache lacks what the controller has written, the set waits. Without this
// protection the controller asks again for what it has done.
func TestStaleCache(t *testing.T) {
	for _, stale := range []bool{false, true} {
		repeated := 0
		for seed := range uint64(30) {
			w := newWorld(t, sim.NewSeeded(seed), statefulset.Config{ActOnStaleCaches: stale})
			w.create(newSet(2))
			w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "created")
			for _, request := range w.writes("create") {
				if strings.HasSuffix(request, "AlreadyExists") {
					repeated++
				}
			}
		}
		if stale != (repeated > 0) {
			t.Errorf("act on stale caches %v: %d requests were repeated", stale, repeated)
		}
	}
}

// TestForcedDeletion: no pod takes the place of one that is ending, until it is gone.
func TestForcedDeletion(t *testing.T) {
	for _, policy := range []func(*appsv1.StatefulSet){func(*appsv1.StatefulSet) {}, parallel} {
		w := newWorld(t, nil)
		w.create(newSet(1, policy))
		w.Run()
		before := w.pod("web-0").UID
		w.deaf["web-0"] = true
		w.deletePod("web-0")
		w.Run()
		if w.pod("web-0").UID != before {
			t.Error("a pod was replaced while it was ending")
		}
		w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "web-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		w.Run()
		if w.pod("web-0").UID == before {
			t.Error("the pod remains")
		}
	}
}
