package statefulset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/statefulset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// both runs a test for ordered and for parallel sets, under several schedules.
func both(t *testing.T, test func(t *testing.T, w *world, policy func(*appsv1.StatefulSet))) {
	t.Helper()
	for name, policy := range map[string]func(*appsv1.StatefulSet){"monotonic": func(*appsv1.StatefulSet) {}, "burst": parallel} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				test(t, newWorld(t, sim.NewSeeded(seed)), policy)
			}
		})
	}
}

// TestRollingUpdate: an update, also together with a change of the number of pods.
func TestRollingUpdate(t *testing.T) {
	both(t, func(_ *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(3, policy))
		w.Run()
		w.edit(image("image:2"))
		w.want("web-0=2 web-1=2 web-2=2 | data-web-0 data-web-1 data-web-2", "image update")
		w.edit(image("image:3"), replicas(5))
		w.want("web-0=3 web-1=3 web-2=3 web-3=3 web-4=3 | data-web-0 data-web-1 data-web-2 data-web-3 data-web-4",
			"image update and scale up")
		w.edit(image("image:4"), replicas(2))
		w.want("web-0=4 web-1=4 | data-web-0 data-web-1 data-web-2 data-web-3 data-web-4", "image update and scale down")
		if s := w.set().Status; w.status() != "2 2 2 2 2" || s.CurrentRevision != s.UpdateRevision {
			w.Fatalf("status %+v", s)
		}
	})
}

// TestRollingUpdateIsOneByOne: the pod of the highest ordinal is updated first, and each must be ready
// before the next.
func TestRollingUpdateIsOneByOne(t *testing.T) {
	for _, policy := range []func(*appsv1.StatefulSet){func(*appsv1.StatefulSet) {}, parallel} {
		w := newWorld(t, nil)
		w.create(newSet(3, policy))
		w.Run()
		w.deaf["web-1"] = true
		w.edit(image("image:2"))
		w.Run()
		want := []string{"delete web-2", "create web-2", "delete web-1"}
		if diff := cmp.Diff(want, w.writes()[6:]); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if got := w.status(); got != "3 3 3 1 1" {
			t.Errorf("status %s: the terminating pod is no longer counted as current", got)
		}
	}
}

// TestPartition: pods below the partition keep the current revision, also if they are created again.
func TestPartition(t *testing.T) {
	both(t, func(t *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(3, policy, partition(2)))
		w.Run()
		w.edit(image("image:2"))
		w.want("web-0=1 web-1=1 web-2=2 | data-web-0 data-web-1 data-web-2", "image update")
		w.deletePod("web-0")
		w.want("web-0=1 web-1=1 web-2=2 | data-web-0 data-web-1 data-web-2", "a pod below the partition is deleted")
		if got := w.status(); got != "3 3 3 2 1" {
			t.Fatalf("status %s", got)
		}
		w.edit(replicas(4))
		w.want("web-0=1 web-1=1 web-2=2 web-3=2 | data-web-0 data-web-1 data-web-2 data-web-3", "image update and scale up")
		w.edit(partition(0))
		w.want("web-0=2 web-1=2 web-2=2 web-3=2 | data-web-0 data-web-1 data-web-2 data-web-3", "no partition")
	})
}

// TestOnDelete: pods are updated when a user deletes them.
func TestOnDelete(t *testing.T) {
	both(t, func(_ *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(2, policy, onDelete))
		w.Run()
		w.edit(image("image:2"))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "image update")
		w.deletePod("web-0")
		w.want("web-0=2 web-1=1 | data-web-0 data-web-1", "one pod is deleted")
		w.edit(replicas(3))
		w.want("web-0=2 web-1=1 web-2=2 | data-web-0 data-web-1 data-web-2", "image update and scale up")
		w.edit(replicas(1))
		w.want("web-0=2 | data-web-0 data-web-1 data-web-2", "image update and scale down")
	})
}

// TestOnDeleteIgnoresMinReadySeconds: nothing is deleted, however long pods are available.
func TestOnDeleteIgnoresMinReadySeconds(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(2, onDelete, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 60 }))
	w.Run()
	w.edit(image("image:2"))
	w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "updated")
}

// TestRollback: the revision of an earlier template is found again, and gets the next number.
func TestRollback(t *testing.T) {
	both(t, func(t *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(2, policy))
		w.Run()
		first := w.set().Status.CurrentRevision
		w.edit(image("image:2"))
		w.Run()
		w.edit(image("image:1"))
		w.want("web-0=1 web-1=1 | data-web-0 data-web-1", "image update")
		if got := w.set().Status.UpdateRevision; got != first || w.revisions() != "2=2 3=1" {
			t.Fatalf("revision %s, want %s; all: %s", got, first, w.revisions())
		}
		w.edit(image("image:2"), replicas(3))
		w.want("web-0=2 web-1=2 web-2=2 | data-web-0 data-web-1 data-web-2", "image update and scale up")
		w.edit(image("image:1"), replicas(1))
		w.want("web-0=1 | data-web-0 data-web-1 data-web-2", "image update and scale down")
	})
}

// TestHistoryLimit: old revisions are deleted, those of pods are not.
func TestHistoryLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int32
		want  string
	}{
		{"zero revisionHistoryLimit", 0, "5=5"},
		{"positive revisionHistoryLimit", 2, "3=3 4=4 5=5"},
		{"negative revisionHistoryLimit", -1, "1=1 2=2 3=3 4=4 5=5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			both(t, func(t *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
				w.create(newSet(1, policy, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = &test.limit }))
				w.Run()
				for _, name := range []string{"image:2", "image:3", "image:4", "image:5"} {
					w.edit(image(name))
					w.Run()
				}
				if got := w.revisions(); got != test.want {
					t.Fatalf("revisions %s, want %s", got, test.want)
				}
			})
		})
	}
	w := newWorld(t, nil)
	w.create(newSet(1, onDelete, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = ptr.To[int32](0) }))
	w.Run()
	w.edit(image("image:2"))
	w.Run()
	w.edit(image("image:3"))
	w.Run()
	if got := w.revisions(); got != "1=1 3=3" {
		t.Errorf("revisions %s: the pod's must remain", got)
	}
}

// TestRevision compares a revision with what upstream writes for the same set.
func TestRevision(t *testing.T) {
	w := newWorld(t, nil)
	set := newSet(1)
	set.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
	w.create(set)
	w.Run()
	r := w.Server.List("controllerrevisions")[0].(*appsv1.ControllerRevision)
	hash := r.Labels["controller.kubernetes.io/hash"]
	if r.Name != "web-"+hash || r.Labels["app"] != "web" || r.Annotations["kubernetes.io/change-cause"] != "first" ||
		!metav1.IsControlledBy(r, w.set()) || !strings.HasPrefix(string(r.Data.Raw), `{"spec":{"template":{"$patch":"replace","metadata":`) {
		t.Errorf("revision %+v", r)
	}
	pod := w.pod("web-0")
	if pod.Labels["controller-revision-hash"] != r.Name || pod.Labels["statefulset.kubernetes.io/pod-name"] != "web-0" ||
		pod.Labels["apps.kubernetes.io/pod-index"] != "0" || pod.Spec.Hostname != "web-0" || pod.Spec.Subdomain != "web" ||
		pod.GenerateName != "web-" || pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-0" {
		t.Errorf("pod %+v", pod)
	}
}

// TestRevisionNameIsTaken: other data has the name of a revision. The collision is counted, and the
// name is another one.
func TestRevisionNameIsTaken(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(1))
	w.Run()
	revision := w.Server.List("controllerrevisions")[0].(*appsv1.ControllerRevision).DeepCopy()
	w.deleteSet("Background")
	w.Run()
	foreign := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Name: revision.Name, Namespace: "default",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node", UID: "other", Controller: ptr.To(true)}},
	}}
	foreign.Data.Raw = []byte(`{}`)
	w.NoError(w.Server.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "other"}}, foreign))
	w.create(newSet(1))
	w.want("web-0=1 | data-web-0", "created")
	if s := w.set().Status; s.CurrentRevision == revision.Name || s.CollisionCount == nil || *s.CollisionCount != 1 {
		t.Errorf("status %+v", s)
	}
}

// TestMaxUnavailable: with the switch, so many pods are updated at once.
func TestMaxUnavailable(t *testing.T) {
	for _, test := range []struct {
		name string
		most intstr.IntOrString
		on   bool
		want int // pods deleted while none becomes ready
	}{
		{"one", intstr.FromInt32(1), true, 1},
		{"three", intstr.FromInt32(3), true, 3},
		{"percentage", intstr.FromString("50%"), true, 2},
		{"small percentage", intstr.FromString("10%"), true, 1},
		{"off", intstr.FromInt32(3), false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil, statefulset.Config{MaxUnavailable: test.on})
			w.create(newSet(5))
			w.Run()
			for _, name := range []string{"web-0", "web-1", "web-2", "web-3", "web-4"} {
				w.deaf[name] = true
			}
			w.Server.UpdateStored("statefulsets", "default", "web", func(stored fake.Object) fake.Object {
				set := stored.(*appsv1.StatefulSet).DeepCopy()
				set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &test.most
				return set
			})
			w.edit(image("image:2"))
			w.Run()
			if got := w.writes("delete"); len(got) != test.want {
				t.Errorf("deleted %v, want %d\n%s", got, test.want, w.Host.Log().Text())
			}
		})
	}
}

// TestMinReadySeconds: a pod that is ready is not available yet. The next is created, updated or
// deleted when it is.
func TestMinReadySeconds(t *testing.T) {
	w := newWorld(t, nil)
	begun := w.Host.Now()
	w.create(newSet(3, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 60 }))
	w.want("web-0=1 web-1=1 web-2=1 | data-web-0 data-web-1 data-web-2", "created")
	if got := w.status(); got != "3 3 3 3 3" {
		t.Errorf("status %s", got)
	}
	passed := func(minutes float64) {
		t.Helper()
		if d := w.Host.Now().Sub(begun); d.Minutes() < minutes || d.Minutes() > minutes+1 {
			t.Errorf("%v have passed, want %v minutes", d, minutes)
		}
		begun = w.Host.Now()
	}
	passed(3)
	w.edit(image("image:2"))
	w.want("web-0=2 web-1=2 web-2=2 | data-web-0 data-web-1 data-web-2", "updated")
	passed(3)
	w.edit(func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 0 }, image("image:3"))
	w.want("web-0=3 web-1=3 web-2=3 | data-web-0 data-web-1 data-web-2", "updated without minReadySeconds")
	passed(0)
}

// TestStartOrdinal: ordinals begin where the set says. A change condemns some pods and creates
// others.
func TestStartOrdinal(t *testing.T) {
	start := func(n int32) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
	}
	both(t, func(_ *testing.T, w *world, policy func(*appsv1.StatefulSet)) {
		w.create(newSet(2, policy, start(3)))
		w.want("web-3=1 web-4=1 | data-web-3 data-web-4", "created")
		w.edit(start(2), image("image:2"))
		w.want("web-2=2 web-3=2 | data-web-2 data-web-3 data-web-4", "moved down")
		w.edit(start(5))
		w.want("web-5=2 web-6=2 | data-web-2 data-web-3 data-web-4 data-web-5 data-web-6", "moved up")
	})
}
