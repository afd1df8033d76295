package cluster_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// newDeployment returns the Deployment "web", whose pods share the claim "data".
func newDeployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: cluster.NewPod("", "data").Spec},
		},
	}
}

// TestDeployment: the pods of a Deployment are updated, and find the data of their claim.
func TestDeployment(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Devices: cluster.Array}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			world.cfg.Nodes = 1
			w := start(t, world.cfg)
			deployments := w.Client().AppsV1().Deployments("default")
			must(t)(w.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
			must(t)(deployments.Create(ctx, newDeployment(2), metav1.CreateOptions{}))
			settle := func(replicas int32) {
				t.Helper()
				var d *appsv1.Deployment
				testcheck.NoError(t, w.Wait(ctx, "the rollout", func() bool {
					obj, _ := w.Server().Get("deployments", "default", "web")
					d, _ = obj.(*appsv1.Deployment)
					return d != nil && d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == replicas &&
						d.Status.UpdatedReplicas == replicas && d.Status.AvailableReplicas == replicas
				}))
			}
			podOf := func(image string) string {
				for _, obj := range w.Server().List("pods") {
					if pod := obj.(*corev1.Pod); pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == image {
						return pod.Name
					}
				}
				t.Fatalf("no pod of image %s", image)
				return ""
			}
			edit := func(change func(*appsv1.Deployment)) {
				t.Helper()
				for {
					d := testcheck.Must(deployments.Get(ctx, "web", metav1.GetOptions{}))
					change(d)
					_, err := deployments.Update(context.Background(), d, metav1.UpdateOptions{})
					if err == nil {
						return
					}
					if !strings.Contains(err.Error(), "the object has been modified") {
						t.Fatal(err)
					}
				}
			}
			settle(2)
			first := newDeployment(1).Spec.Template.Spec.Containers[0].Image
			testcheck.NoError(t, w.WriteFile("default", podOf(first), "data", "name", []byte("first")))
			edit(func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Image, d.Spec.Replicas = "other", ptr.To[int32](3)
			})
			settle(3)
			if got, err := w.ReadFile("default", podOf("other"), "data", "name"); err != nil || string(got) != "first" {
				t.Errorf("data %q, %v", got, err)
			}
			testcheck.NoError(t, deployments.Delete(ctx, "web", metav1.DeleteOptions{
				PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
			}))
			testcheck.NoError(t, w.WaitForGone(ctx, "deployments", "default", "web"), w.WaitForRest(ctx))
			for _, resource := range []string{"pods", "replicasets"} {
				if n := len(w.Server().List(resource)); n > 0 {
					t.Errorf("%d %s after the deletion", n, resource)
				}
			}
		})
	}
}
