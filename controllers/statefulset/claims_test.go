package statefulset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// release removes the protection finalizers of claims that are being deleted, as the PVC protection
// controller does when no pod uses them.
func (w *world) release() {
	w.Helper()
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		if obj.GetDeletionTimestamp() != nil {
			testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Patch(ctx, obj.GetName(),
				types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
		}
	}
	w.Run()
}

// TestRetention: which claims have which owners, and which are deleted with pods and with the set.
func TestRetention(t *testing.T) {
	for _, test := range []struct{ whenDeleted, whenScaled, created, scaled, deleted string }{
		{"Retain", "Retain", "data-web-0 data-web-1", "data-web-0 data-web-1", "data-web-0 data-web-1"},
		{"Delete", "Retain", "data-web-0>web data-web-1>web", "data-web-0>web data-web-1>web", ""},
		{"Retain", "Delete", "data-web-0 data-web-1", "data-web-0", "data-web-0"},
		{"Delete", "Delete", "data-web-0>web data-web-1>web", "data-web-0>web", ""},
	} {
		t.Run(test.whenDeleted+" "+test.whenScaled, func(t *testing.T) {
			both(t, func(_ *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
				w.create(newSet(2, policy, retains(test.whenDeleted, test.whenScaled)))
				w.want("web-0=1 web-1=1 | "+test.created, "created")
				w.edit(replicas(1))
				w.Run()
				w.release()
				w.want("web-0=1 | "+test.scaled, "scaled down")
				w.deletePod("web-0")
				w.want("web-0=1 | "+test.scaled, "a pod of the set is deleted")
				w.deleteSet("Background")
				w.Run()
				w.release()
				w.want(" | "+test.deleted, "deleted")
			})
		})
	}
}

// TestClaimsOfASetThatWasDeleted: the set is deleted while its claims are created, and the controller
// does not know it yet. No claim remains.
func TestClaimsOfASetThatWasDeleted(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newSet(3, parallel, retains("Delete", "Retain")))
		for range seed {
			w.Host.Step()
		}
		w.deleteSet("Background")
		w.Run()
		w.release()
		w.want(" | ", fmt.Sprintf("deleted after %d steps", seed))
	}
}

// TestRetentionChanges: owners follow a change of the policy. Claims without a pod have none.
func TestRetentionChanges(t *testing.T) {
	both(t, func(_ *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(2, policy))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "created")
		w.edit(retains("Delete", "Retain"))
		w.want("web-0=1 web-1=1 | data-web-0>web data-web-1>web", "deleted with the set")
		w.edit(retains("Retain", "Delete"))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "deleted when scaled")
		w.deaf["web-1"] = true
		w.edit(replicas(1))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1>web-1", "scaled down")
		w.edit(retains("Retain", "Retain"))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "retained, before the pod has ended")
	})
}

// TestScaleUpWaitsForStaleClaims: a claim that is deleted with its pod is not used by the next one.
func TestScaleUpWaitsForStaleClaims(t *testing.T) {
	both(t, func(t *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(2, policy, retains("Retain", "Delete")))
		w.Run()
		before := w.Server.List("persistentvolumeclaims")[1].GetUID()
		w.edit(replicas(1))
		w.Run()
		w.edit(replicas(2))
		w.Run()
		if got := w.names(); got != "web-0=1 | data-web-0 data-web-1>web-1" {
			t.Fatalf("%s: the claim is protected still", got)
		}
		w.release()
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "the claim is gone")
		if after := w.Server.List("persistentvolumeclaims")[1].GetUID(); after == before {
			t.Fatal("the claim remains")
		}
	})
}

// TestClaimOfAPendingPod: a missing claim of a pod that waits is created, also if the pod exists.
func TestClaimOfAPendingPod(t *testing.T) {
	w := newWorld(t, nil)
	w.deaf["web-0"] = true
	w.create(newSet(1))
	w.Run()
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data-web-0", metav1.DeleteOptions{}))
	w.release()
	w.want("web-0=1 | data-web-0", "the claim was deleted")
	if got := w.Server.List("persistentvolumeclaims")[0].GetDeletionTimestamp(); got != nil {
		t.Error("the claim remains")
	}
}

// TestClaimIsBeingDeleted: a pod is created when the old claim of its ordinal has gone.
func TestClaimIsBeingDeleted(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(1))
	w.Run()
	w.edit(replicas(0))
	w.Run()
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data-web-0", metav1.DeleteOptions{}))
	w.Run()
	w.edit(replicas(1))
	w.want(" | data-web-0", "the claim is being deleted")
	if !slices.Contains(w.messages(), "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted") {
		t.Errorf("events %q", w.messages())
	}
	w.release()
	w.want("web-0=1 | data-web-0", "the claim is gone")
}

// TestClaimOfAnotherController: a claim that something else controls is left to it.
func TestClaimOfAnotherController(t *testing.T) {
	w := newWorld(t, nil)
	owner := testcheck.Must(w.User.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"},
	}, metav1.CreateOptions{}))
	claim := newSet(1).Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name = "data-web-0"
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: ptr.To(true),
	}}
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
	w.create(newSet(1, retains("Delete", "Delete")))
	w.want("web-0=1 | data-web-0>owner", "created")
	if got := strings.Join(w.messages(), "\n"); !strings.Contains(got, "Warning ConflictingController PersistentVolumeClaim data-web-0 has "+
		"a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim") {
		t.Errorf("events %s", got)
	}
}

// TestFailedRequests: the events of requests that fail, and that they are repeated.
func TestFailedRequests(t *testing.T) {
	down := apierrors.NewInternalError(errors.New("API server down"))
	const text = "Internal error occurred: API server down"
	for _, test := range []struct {
		name, verb, resource string
		before, act          func(w *world)
		events               []string
		after                string
	}{
		{
			"create a claim", "create", "persistentvolumeclaims", nil, func(w *world) { w.create(newSet(1)) },
			[]string{
				"Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: " + text,
				"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: " + text,
			},
			"web-0=1 | data-web-0",
		},
		{
			"create a pod", "create", "pods", nil, func(w *world) { w.create(newSet(1)) },
			[]string{"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: " + text},
			"web-0=1 | data-web-0",
		},
		{
			"delete a pod", "delete", "pods", func(w *world) { w.create(newSet(1)) }, func(w *world) { w.edit(replicas(0)) },
			[]string{"Warning FailedDelete Delete Pod web-0 in StatefulSet web failed error: " + text},
			" | data-web-0",
		},
		{
			"update a pod", "update", "pods", func(w *world) { w.create(newSet(1)) },
			func(w *world) {
				w.editPod("web-0", func(pod *corev1.Pod) { delete(pod.Labels, appsv1.StatefulSetPodNameLabel) })
			},
			[]string{"Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: " + text},
			"web-0=1 | data-web-0",
		},
		{
			"update a claim", "update", "persistentvolumeclaims", func(w *world) { w.create(newSet(1)) },
			func(w *world) { w.edit(retains("Delete", "Retain")) },
			[]string{"Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: " +
				"could not update claim data-web-0 for delete policy ownerRefs: " + text},
			"web-0=1 | data-web-0>web",
		},
		{
			"update the status", "update", "statefulsets", func(w *world) { w.create(newSet(1)) },
			func(w *world) { w.edit(replicas(2)) }, nil, "web-0=1 web-1=1 | data-web-0 data-web-1",
		},
		{
			"a conflict", "update", "conflict", func(w *world) { w.create(newSet(1)) },
			func(w *world) {
				w.editPod("web-0", func(pod *corev1.Pod) { delete(pod.Labels, appsv1.StatefulSetPodNameLabel) })
			},
			nil, "web-0=1 | data-web-0",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			if test.before != nil {
				test.before(w)
				w.Run()
			}
			failed := 0
			w.fail = func(action trace.Action) error {
				resource, _, _ := strings.Cut(action.Object, "/")
				verb, _, _ := strings.Cut(action.Verb, "/")
				switch {
				case failed > 0 || verb != test.verb:
					return nil
				case test.resource == "conflict" && resource == "pods":
					failed++
					return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("changed"))
				case resource != test.resource:
					return nil
				}
				failed++
				return down
			}
			test.act(w)
			w.want(test.after, test.name)
			if failed == 0 {
				t.Fatal("no request failed")
			}
			got := slices.DeleteFunc(w.messages(), func(m string) bool { return strings.HasPrefix(m, "Normal") })
			if !slices.Equal(got, test.events) {
				t.Errorf("events %q, want %q", got, test.events)
			}
		})
	}
}

// TestCrashAnywhere: the controller crashes at each of its requests in the life of a set. Another one
// ends where the first would have.
func TestCrashAnywhere(t *testing.T) {
	for _, policy := range []func(*appsv1.StatefulSet){func(*appsv1.StatefulSet) {}, parallel} {
		at, reached := 0, true
		for ; reached; at++ {
			reached = false
			w := newWorld(t, nil)
			requests := 0
			w.Server.OnCommit(func(fake.Commit) { requests++ })
			check := func(want, when string) {
				w.Helper()
				for !reached && requests < at && w.Host.Step() {
				}
				if requests >= at && !reached {
					reached = true
					w.crash()
				}
				w.want(want, when)
			}
			w.create(newSet(2, policy, retains("Delete", "Retain")))
			check("web-0=1 web-1=1 | data-web-0>web data-web-1>web", "created")
			w.edit(image("image:2"))
			check("web-0=2 web-1=2 | data-web-0>web data-web-1>web", "updated")
			w.edit(replicas(1))
			check("web-0=2 | data-web-0>web data-web-1>web", "scaled down")
		}
		if at < 30 {
			t.Errorf("%d crashes", at)
		}
	}
}
