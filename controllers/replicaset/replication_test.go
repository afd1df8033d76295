package replicaset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestConversion: a ReplicationController that is converted to a set and back has not changed.
func TestConversion(t *testing.T) {
	labels := map[string]string{"app": "web"}
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1", Labels: labels},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To[int32](3), MinReadySeconds: 4, Selector: labels,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas: 5, FullyLabeledReplicas: 6, ReadyReplicas: 7, AvailableReplicas: 8, ObservedGeneration: 9,
			Conditions: []corev1.ReplicationControllerCondition{{
				Type: "ReplicaFailure", Status: "True", LastTransitionTime: metav1.Unix(1, 0), Reason: "FailedCreate", Message: "no",
			}},
		},
	}
	if diff := cmp.Diff(rc, replicaset.FromSet(replicaset.ToSet(rc))); diff != "" {
		t.Errorf("converted (-want +got):\n%s", diff)
	}
}

// TestPodsOfAReplicaSet: a ReplicationController leaves the pods of a ReplicaSet with its selector and name
// alone.
func TestPodsOfAReplicaSet(t *testing.T) {
	w := newWorld(t, nil, replicaset.Config{ReplicationControllers: true})
	set := testcheck.Must(w.User.AppsV1().ReplicaSets("default").Create(ctx, newSet(1), metav1.CreateOptions{}))
	w.createPod("of-the-set", func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, set.GroupVersionKind())}
		pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = "apps/v1", "ReplicaSet"
	})
	w.create(newSet(2))
	w.want("2 0 1", "created")
}
