package workload_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/workload"
)

var setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

func newPod(name string, owner *appsv1.ReplicaSet, matches bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	if matches {
		pod.Labels = map[string]string{"app": "web"}
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{workload.ControllerRef(owner, setKind)}
	}
	return pod
}

func newOwner(uid types.UID) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: uid}}
}

// claim returns a claims object that matches pods with labels, and records its patches.
func claim(owner *appsv1.ReplicaSet, patches *[]string) *workload.Claims[*corev1.Pod] {
	return &workload.Claims[*corev1.Pod]{
		Owner: owner, Kind: setKind, What: "Pod",
		Match: func(pod *corev1.Pod) bool { return len(pod.Labels) > 0 },
		Fresh: func(context.Context) (metav1.Object, error) { return owner, nil },
		Patch: func(_ context.Context, pod *corev1.Pod, patch []byte) error {
			*patches = append(*patches, pod.Name+" "+string(patch))
			return nil
		},
	}
}

// Example shows the objects of an owner: a member, and an orphan, which is adopted.
func Example() {
	owner := newOwner("1")
	var patches []string
	pods, err := claim(owner, &patches).Claim(context.Background(), []*corev1.Pod{
		newPod("member", owner, true), newPod("orphan", nil, true), newPod("stranger", newOwner("2"), true),
	})
	for _, pod := range pods {
		fmt.Println(pod.Name)
	}
	fmt.Println(patches, err)
	// Output:
	// member
	// orphan
	// [orphan {"metadata":{"uid":"orphan","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"1","controller":true,"blockOwnerDeletion":true}]}}] <nil>
}

// TestRelease: a member that the owner does not select is released, and its finalizer is removed. One
// that is gone needs nothing.
func TestRelease(t *testing.T) {
	owner := newOwner("1")
	var patches []string
	claims := claim(owner, &patches)
	claims.Finalizer = "example.com/f"
	pods, err := claims.Claim(t.Context(), []*corev1.Pod{newPod("a", owner, false), newPod("b", nil, true)})
	if err != nil || len(pods) != 1 || pods[0].Name != "b" {
		t.Fatalf("%v, %v", pods, err)
	}
	want := `a {"metadata":{"uid":"a","ownerReferences":[{"$patch":"delete","uid":"1"}],` +
		`"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}`
	if patches[0] != want || !strings.Contains(patches[1], `"finalizers":["example.com/f"]`) {
		t.Errorf("patches %q", patches)
	}
	claims.Patch = func(context.Context, *corev1.Pod, []byte) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a")
	}
	if _, err := claims.Claim(t.Context(), []*corev1.Pod{newPod("a", owner, false)}); err != nil {
		t.Error(err)
	}
}

// TestNoAdoption: an owner that is gone, or is being deleted, adopts nothing. It is read once.
func TestNoAdoption(t *testing.T) {
	for name, fresh := range map[string]*appsv1.ReplicaSet{
		"original ReplicaSet default/web is gone: got uid 2, wanted 1": newOwner("2"),
		"default/web has just been deleted at ": {ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "1", DeletionTimestamp: &metav1.Time{},
		}},
	} {
		var patches []string
		claims, reads := claim(newOwner("1"), &patches), 0
		claims.Fresh = func(context.Context) (metav1.Object, error) {
			reads++
			return fresh, nil
		}
		pods, err := claims.Claim(t.Context(), []*corev1.Pod{newPod("a", nil, true), newPod("b", nil, true)})
		if err == nil || !strings.Contains(err.Error(), name) || len(pods) > 0 || len(patches) > 0 || reads != 1 {
			t.Errorf("%v, %v, %q, %d reads", pods, err, patches, reads)
		}
	}
}

// TestRelate: the relation of an owner to a pod.
func TestRelate(t *testing.T) {
	owner, other := newOwner("1"), newOwner("2")
	deleted := newOwner("1")
	deleted.DeletionTimestamp = &metav1.Time{}
	ending := newPod("a", nil, true)
	ending.DeletionTimestamp = &metav1.Time{}
	elsewhere := newPod("a", nil, true)
	elsewhere.Namespace = "other"
	for _, test := range []struct {
		name  string
		owner *appsv1.ReplicaSet
		pod   *corev1.Pod
		want  workload.Relation
	}{
		{"Claim pods with correct label", owner, newPod("a", nil, true), workload.Adopted},
		{"an orphan with another label", owner, newPod("a", nil, false), workload.Stranger},
		{"Controller marked for deletion can not claim pods", deleted, newPod("a", nil, true), workload.Stranger},
		{"Controller marked for deletion can not claim new pods", deleted, newPod("a", deleted, true), workload.Member},
		{"an owner that is being deleted releases nothing", deleted, newPod("a", deleted, false), workload.Stranger},
		{"Controller can not claim pods owned by another controller", owner, newPod("a", other, true), workload.Stranger},
		{"Controller releases claimed pods when selector doesn't match", owner, newPod("a", owner, false), workload.Released},
		{"Controller does not claim orphaned pods marked for deletion", owner, ending, workload.Stranger},
		{"Controller does not claim pods of different namespace", owner, elsewhere, workload.Stranger},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := workload.Relate(test.owner, test.pod, len(test.pod.Labels) > 0); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
