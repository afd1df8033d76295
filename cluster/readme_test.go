package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
)

// The README shows this test; TestReadmeShowsTestedCode compares the two.
func TestClaimBindsAndPodRuns(t *testing.T) {
	c, err := cluster.New(cluster.Config{Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	core := c.Client().CoreV1() // a kubernetes.Interface
	claim, pod := cluster.NewClaim("data", "64Mi"), cluster.NewPod("web", "data")
	if _, err := core.PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForPod(t.Context(), "default", "web", corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
}
