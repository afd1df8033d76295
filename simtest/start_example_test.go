package simtest_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// exampleTest returns the *testing.T of an example.
func exampleTest() (t testing.TB, end func()) {
	l := &startListener{}
	return l, func() {
		for _, f := range l.cleanups {
			f()
		}
	}
}

// A live cluster that ends with the test.
func ExampleStart() {
	t, end := exampleTest() // in a test: the *testing.T
	defer end()
	c := simtest.Start(t, cluster.Config{Nodes: 1})
	simtest.Apply(t, c, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
`)
	simtest.WaitFor(t, c, "persistentvolumeclaims", "default", "data", "jsonpath={.status.phase}=Bound")
	simtest.Settle(t, c)
	volumes, err := c.Client().CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	fmt.Println(len(volumes.Items), err)
	// Output: 1 <nil>
}

// A stepped cluster under a seed. Its user acts concurrently with the control plane.
func ExampleSettle() {
	t, end := exampleTest() // in a test: the *testing.T
	defer end()
	c := simtest.Start(t, cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(1)}})
	c.User("alice", func(ctx context.Context) error {
		claims := c.Client().CoreV1().PersistentVolumeClaims("default")
		if _, err := claims.Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
			return err
		}
		return claims.Delete(ctx, "data", metav1.DeleteOptions{})
	})
	simtest.Settle(t, c)
	leaks, err := c.Leaks()
	fmt.Println(len(leaks), err)
	// Output: 0 <nil>
}
