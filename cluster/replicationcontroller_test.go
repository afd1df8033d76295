package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestReplicationController: a ReplicationController is scaled and deleted. Without a propagation policy
// its pods remain, and the next one of its name adopts them. The live world runs in a bubble, whose
// components have seen everything before the next write: a controller or a garbage collector that lags
// may make more pods, or remove the pods after their owner.
func TestReplicationController(t *testing.T) {
	t.Run("stepped", func(t *testing.T) {
		testReplicationController(t, start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}), func() {})
	})
	t.Run("live", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			testReplicationController(t, start(t, cluster.Config{Nodes: 1, Devices: cluster.Array}), synctest.Wait)
		})
	})
}

// testReplicationController calls quiet after all that components must see first.
func testReplicationController(t *testing.T, w *cluster.Cluster, quiet func()) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of the world's time, if it is live
	defer cancel()
	client := w.Client().CoreV1().ReplicationControllers("default")
	create := func() {
		t.Helper()
		must(t)(client.Create(ctx, &corev1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2), Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: cluster.NewPod("", "data").Spec,
			}},
		}, metav1.CreateOptions{}))
	}
	settle := func(count int32) {
		t.Helper()
		testcheck.NoError(t, w.Wait(ctx, "its pods", func() bool {
			obj, _ := w.Server().Get("replicationcontrollers", "default", "web")
			rc, _ := obj.(*corev1.ReplicationController)
			return rc != nil && rc.Status.ObservedGeneration == rc.Generation && rc.Status.Replicas == count &&
				rc.Status.AvailableReplicas == count && len(w.Server().List("pods")) == int(count)
		}))
		quiet()
	}
	remove := func(opts metav1.DeleteOptions) {
		t.Helper()
		testcheck.NoError(t, client.Delete(ctx, "web", opts),
			w.WaitForGone(ctx, "replicationcontrollers", "default", "web"), w.WaitForRest(ctx))
		quiet()
	}
	must(t)(w.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
	create()
	settle(2)
	must(t)(client.UpdateScale(ctx, "web", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3},
	}, metav1.UpdateOptions{}))
	settle(3)
	scale := testcheck.Must(client.GetScale(ctx, "web", metav1.GetOptions{}))
	if scale.Status.Replicas != 3 || scale.Status.Selector != "app=web" {
		t.Errorf("scale %+v", scale.Status)
	}
	remove(metav1.DeleteOptions{})
	before := map[string]bool{}
	for _, obj := range w.Server().List("pods") {
		before[string(obj.GetUID())] = true
	}
	create()
	settle(2)
	for _, obj := range w.Server().List("pods") {
		if !before[string(obj.GetUID())] {
			t.Errorf("pod %s is new", obj.GetName())
		}
	}
	remove(metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	if n := len(w.Server().List("pods")); n > 0 || len(before) != 3 {
		t.Errorf("%d of %d pods after the deletion", n, len(before))
	}
}
