package fake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// An eviction says in the pod's status that it deletes the pod, and why.
func TestEvictionSetsACondition(t *testing.T) {
	w := newWorld(t)
	pods := w.User.CoreV1().Pods("default")
	pod := testcheck.Must(pods.Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{}))
	evict := func(opts metav1.DeleteOptions) error {
		return pods.EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}, DeleteOptions: &opts})
	}
	conditions := func() []corev1.PodCondition {
		return testcheck.Must(pods.Get(w.Context(), "a", metav1.GetOptions{})).Status.Conditions
	}
	testcheck.NoError(t, evict(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	err := evict(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To[types.UID]("x")}})
	expectError(t, err, apierrors.IsConflict, "the UID in the precondition (x) does not match the UID in record ("+string(pod.UID)+")")
	err = evict(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}})
	expectError(t, err, apierrors.IsConflict, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ("+pod.ResourceVersion+")")
	testcheck.Equal(t, "conditions", []corev1.PodCondition(nil), conditions())
	testcheck.NoError(t, evict(metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	}))
	testcheck.Equal(t, "conditions", []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(sim.Epoch.Local()),
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	}}, conditions())
	if got := testcheck.Must(pods.Get(w.Context(), "a", metav1.GetOptions{})); got.DeletionTimestamp == nil {
		t.Error("the pod is not being deleted")
	}
	expectError(t, pods.EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "b"}}), apierrors.IsNotFound, `pods "b" not found`)
}

// A pod that is bound to a node, or created on it, gets the node's zone and region.
func TestPodsGetTopologyLabels(t *testing.T) {
	w := newWorld(t)
	core := w.User.CoreV1()
	pods := core.Pods("default")
	zone := map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r", corev1.LabelHostname: "n"}
	testcheck.Must(core.Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: zone}}, metav1.CreateOptions{}))
	want := map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r", "a": "b"}
	for _, test := range []struct {
		name, on string // created on a node
		target   *corev1.ObjectReference
		want     map[string]string
	}{
		{"bound", "", &corev1.ObjectReference{Kind: "Node", Name: "n"}, want},
		{"created", "n", nil, want},
		{"of-no-kind", "", &corev1.ObjectReference{Name: "n"}, map[string]string{"a": "b", corev1.LabelTopologyZone: "old"}},
		{"no-such-node", "", &corev1.ObjectReference{Kind: "Node", Name: "m"}, map[string]string{"a": "b", corev1.LabelTopologyZone: "old"}},
	} {
		testcheck.Must(pods.Create(w.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: map[string]string{"a": "b", corev1.LabelTopologyZone: "old"}},
			Spec:       corev1.PodSpec{NodeName: test.on, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{}))
		if test.target != nil {
			testcheck.NoError(t, pods.Bind(w.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: test.name}, Target: *test.target}, metav1.CreateOptions{}))
		}
		testcheck.Equal(t, "labels", test.want, testcheck.Must(pods.Get(w.Context(), test.name, metav1.GetOptions{})).Labels)
	}
}
