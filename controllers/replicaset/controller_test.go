package replicaset_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestLife: a set is created, scaled and deleted.
func TestLife(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		for seed := range uint64(20) {
			w := newWorld(t, sim.NewSeeded(seed), cfg)
			w.create(newSet(3))
			w.want("3 0 0", "created")
			if got := w.status(); got != "3 3 3 3 0" {
				t.Fatalf("status %s", got)
			}
			w.edit(replicas(1))
			w.want("1 0 0", "scaled down")
			w.edit(replicas(5))
			w.want("5 0 0", "scaled up")
			w.edit(replicas(0))
			w.want("0 0 0", "scaled to none")
			w.edit(replicas(2))
			w.want("2 0 0", "scaled up again")
			w.deleteSet(metav1.DeletePropagationBackground)
			w.want("0 0 0", "deleted")
		}
	})
}

// TestEvents: what the controller reports.
func TestEvents(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		w := newWorld(t, nil, cfg)
		w.create(newSet(2))
		w.Run()
		w.edit(replicas(1))
		w.Run()
		want := []string{"Normal SuccessfulCreate Created pod: web-*", "Normal SuccessfulDelete Deleted pod: web-*"}
		if diff := cmp.Diff(want, w.messages()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		for _, pod := range w.pods() {
			if pod.GenerateName != "web-" || !strings.HasPrefix(pod.Name, "web-") {
				t.Errorf("pod %s of %q", pod.Name, pod.GenerateName)
			}
		}
	})
}

// TestOrphans: a set adopts the orphans that it selects, and releases pods that it does not.
func TestOrphans(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		for seed := range uint64(10) {
			w := newWorld(t, sim.NewSeeded(seed), cfg)
			w.createPod("first")
			w.createPod("other", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "other"} })
			w.createPod("owned", func(pod *corev1.Pod) {
				pod.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Node", Name: "n", UID: "1", Controller: new(bool),
				}}
				*pod.OwnerReferences[0].Controller = true
			})
			w.create(newSet(2))
			w.Run()
			if ref := metav1.GetControllerOf(testcheck.Must(w.User.CoreV1().Pods("default").Get(ctx, "first", metav1.GetOptions{}))); ref == nil {
				t.Fatal("no adoption")
			}
			w.editPod("first", func(pod *corev1.Pod) { pod.Labels["app"] = "other" })
			w.want("2 0 2", "released")
			w.editPod("other", func(pod *corev1.Pod) { pod.Labels["app"] = "web" })
			w.want("2 0 1", "one more, and one too many")
		}
	})
}

// TestOrphanedPods: the pods of a set that is deleted with orphan remain, and another set of its name
// adopts them.
func TestOrphanedPods(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		w := newWorld(t, nil, cfg)
		w.create(newSet(2))
		w.Run()
		before := w.pods()
		w.deleteSet(metav1.DeletePropagationOrphan)
		w.want("0 0 2", "orphaned")
		w.create(newSet(2))
		w.want("2 0 0", "adopted")
		for i, pod := range w.pods() {
			if pod.UID != before[i].UID {
				t.Errorf("pod %s was replaced", pod.Name)
			}
		}
	})
}

// TestNoAdoptionByADeletedSet: a set that is being deleted adopts no pod, also if its cache lacks the
// deletion, and creates none.
func TestNoAdoptionByADeletedSet(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		w := newWorld(t, nil, cfg)
		w.create(newSet(1, func(set *appsv1.ReplicaSet) { set.Finalizers = []string{"example.com/hold"} }))
		w.Run()
		w.createPod("orphan")
		w.Step("replicaset/cache pods")
		w.deleteSet(metav1.DeletePropagationBackground)
		w.deletePod(w.pods()[len(w.pods())-1].Name)
		w.Run()
		for _, pod := range w.pods() {
			if pod.Name == "orphan" && metav1.GetControllerOf(pod) != nil {
				t.Error("adopted")
			}
		}
		if got := w.counts(); got != "0 0 1" {
			t.Errorf("%s\n%s", got, w.Host.Log().Text())
		}
	})
}

// TestEndedPods: a pod that failed, or that is being deleted, is replaced at once.
func TestEndedPods(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		w := newWorld(t, nil, cfg)
		w.create(newSet(2))
		w.Run()
		failed, ending := w.pods()[0].Name, w.pods()[1].Name
		w.deaf[ending] = true
		w.editPod(failed, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		w.deletePod(ending)
		w.want("2 2 0", "replaced")
		want := "2 2 2 2 1"
		if cfg.ReplicationControllers {
			want = "2 2 2 2 0" // the status has no such field
		}
		if got := w.status(); got != want {
			t.Errorf("status %s, want %s", got, want)
		}
	})
}

// TestRelatedPods: of two equal pods the one is deleted whose node has more pods of the Deployment's
// other sets. A set that something else owns does not count.
func TestRelatedPods(t *testing.T) {
	for _, owned := range []bool{true, false} {
		w := newWorld(t, nil)
		d := testcheck.Must(w.User.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       appsv1.DeploymentSpec{Selector: newSet(1).Spec.Selector, Template: newSet(1).Spec.Template},
		}, metav1.CreateOptions{}))
		node := func(name string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.NodeName = name } }
		w.createPod("a", node("node-1"))
		w.createPod("b", node("node-2"))
		w.create(newSet(2, func(set *appsv1.ReplicaSet) {
			set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		}))
		w.create(newSet(1, func(set *appsv1.ReplicaSet) {
			set.Name = "old"
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "old"}}
			set.Spec.Template.Labels, set.Spec.Template.Spec.NodeName = set.Spec.Selector.MatchLabels, "node-1"
			if owned {
				set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
			}
		}))
		w.want("3 0 0", "created")
		w.edit(replicas(1))
		w.Run()
		kept := ""
		for _, pod := range w.pods() {
			if pod.Labels["app"] == "web" {
				kept += pod.Name
			}
		}
		if owned && kept != "b" || len(kept) != 1 {
			t.Errorf("owned %v: kept %q", owned, kept)
		}
	}
}

// TestMinReadySeconds: a pod counts as available when it has been ready for so long.
func TestMinReadySeconds(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		w := newWorld(t, nil, cfg)
		w.create(newSet(1, func(set *appsv1.ReplicaSet) { set.Spec.MinReadySeconds = 30 }))
		w.Until("a ready pod", func() bool { return w.set().Status.ReadyReplicas == 1 })
		began := w.Host.Now()
		if n := w.set().Status.AvailableReplicas; n != 0 {
			t.Errorf("%d available at once", n)
		}
		w.Until("an available pod", func() bool { return w.set().Status.AvailableReplicas == 1 })
		if d := w.Host.Now().Sub(began); d < 29*time.Second || d > 31*time.Second {
			t.Errorf("available after %v", d)
		}
	})
}

// TestFailures: what follows a request that fails. Pods are created in batches of 1, 2 and 4.
func TestFailures(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		for _, test := range []struct {
			name, verb  string
			limit       int // requests that succeed
			requests    int
			event, cond string
		}{
			{"create, none", "create", 0, 1, "Warning FailedCreate Error creating: Internal error occurred: no", "FailedCreate"},
			{"create, two", "create", 2, 3, "Warning FailedCreate Error creating: Internal error occurred: no", "FailedCreate"},
			{"create, three", "create", 3, 7, "Warning FailedCreate Error creating: Internal error occurred: no", "FailedCreate"},
			{"delete", "delete", 0, 7, "Warning FailedDelete Error deleting: Internal error occurred: no", "FailedDelete"},
		} {
			t.Run(test.name, func(t *testing.T) {
				w := newWorld(t, nil, cfg)
				before, after := int32(0), int32(8)
				if test.verb == "delete" {
					before, after = 8, 1
				}
				w.create(newSet(before))
				w.Run()
				requests := 0
				w.fail = func(action trace.Action) error {
					if action.Verb != test.verb || !strings.HasPrefix(action.Object, "pods/") {
						return nil
					}
					if requests++; requests > test.limit {
						return apierrors.NewInternalError(errors.New("no"))
					}
					return nil
				}
				w.edit(replicas(after))
				w.Until("the condition", func() bool { return len(w.set().Status.Conditions) > 0 })
				if c := w.set().Status.Conditions[0]; c.Type != appsv1.ReplicaSetReplicaFailure || c.Reason != test.cond {
					t.Errorf("condition %+v", c)
				}
				if requests != test.requests {
					t.Errorf("%d requests, want %d", requests, test.requests)
				}
				w.fail = nil
				w.Run()
				if n := len(w.set().Status.Conditions); n != 0 || w.set().Status.Replicas != after {
					t.Errorf("%d conditions, %d replicas", n, w.set().Status.Replicas)
				}
				if got := strings.Join(w.messages(), "\n"); !strings.Contains(got, test.event) {
					t.Errorf("events %s", got)
				}
			})
		}
	})
}

// TestStaleCache: while a cache lacks what the controller has written, the set waits. Without this
// protection it still creates and deletes no pod twice, but writes a status of pods that it has not seen.
func TestStaleCache(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		for _, stale := range []bool{false, true} {
			cfg.ActOnStaleCaches = stale
			conflicts := 0
			for seed := range uint64(30) {
				w := newWorld(t, sim.NewSeeded(seed), cfg)
				w.create(newSet(3))
				w.want("3 0 0", "created")
				w.edit(replicas(1))
				w.want("1 0 0", "scaled down")
				if n := len(w.requests("create", "pods")); n != 3 {
					t.Errorf("act on stale caches %v: %d pods created", stale, n)
				}
				if n := len(w.requests("delete", "pods")); n != 2 {
					t.Errorf("act on stale caches %v: %d deletions", stale, n)
				}
				for _, request := range w.requests("update/status", w.resource()) {
					if strings.HasSuffix(request, "Conflict") {
						conflicts++
					}
				}
			}
			if stale != (conflicts > 0) {
				t.Errorf("act on stale caches %v: %d conflicts", stale, conflicts)
			}
		}
	})
}

// TestExpectedDeletion: while the cache lacks a deletion, no other pod is deleted in its place.
func TestExpectedDeletion(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		w := newWorld(t, nil, cfg)
		w.create(newSet(2))
		w.Run()
		w.edit(replicas(1))
		for len(w.requests("delete", "pods")) == 0 && w.Host.Step() {
		}
		// The pod that was deleted would now be the last one to choose.
		for _, pod := range w.pods() {
			if pod.DeletionTimestamp == nil {
				w.editPod(pod.Name, func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} })
			}
		}
		w.edit(func(set *appsv1.ReplicaSet) { set.Annotations = map[string]string{"again": ""} })
		w.want("1 0 0", "scaled down")
		if got := w.requests("delete", "pods"); len(got) != 1 {
			t.Errorf("deletions %q", got)
		}
	})
}

// TestCrashAnywhere: a crash at any request changes nothing of what follows.
func TestCrashAnywhere(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg replicaset.Config) {
		at, reached := 0, true
		for ; reached; at++ {
			reached = false
			w := newWorld(t, nil, cfg)
			commits := 0
			w.Server.OnCommit(func(fake.Commit) { commits++ })
			check := func(want, when string) {
				w.Helper()
				for !reached && commits < at && w.Host.Step() {
				}
				if commits >= at && !reached {
					reached = true
					w.crash()
				}
				w.want(want, when)
			}
			w.create(newSet(3))
			check("3 0 0", "created")
			w.edit(replicas(1))
			check("1 0 0", "scaled down")
			w.createPod("orphan")
			check("1 0 0", "one too many")
			w.edit(replicas(2))
			check("2 0 0", "scaled up")
		}
		if at < 25 {
			t.Errorf("%d crashes", at)
		}
	})
}
