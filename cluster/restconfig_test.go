package cluster_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// TestAUserBehindARESTConfigIsStepped runs a program with a clientset from the configuration in a
// stepped world. It is suspended at its requests, and what it waits for happens in between.
func TestAUserBehindARESTConfigIsStepped(t *testing.T) {
	run := func() string {
		c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(3)}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		client, err := kubernetes.NewForConfig(c.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		c.User("operator", func(ctx context.Context) error {
			claims := client.CoreV1().PersistentVolumeClaims("default")
			if _, err := claims.Create(ctx, cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{}); err != nil {
				return err
			}
			for {
				claim, err := claims.Get(ctx, "data", metav1.GetOptions{})
				if err != nil || claim.Status.Phase == corev1.ClaimBound {
					return err
				}
			}
		})
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.Trace().Text()
	}
	if first, second := run(), run(); first != second {
		t.Error("the same seed gave two traces")
	}
}
