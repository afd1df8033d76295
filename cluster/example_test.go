package cluster_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

func Example() {
	ctx := context.Background()
	c, err := cluster.New(cluster.Config{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	client := c.Client() // a kubernetes.Interface
	client.CoreV1().PersistentVolumeClaims("default").Create(ctx,
		cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	client.CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		log.Fatal(err)
	}
	c.WriteFile("default", "web", "data", "hello.txt", []byte("hello"))
	hello, err := c.ReadFile("default", "web", "data", "hello.txt")
	fmt.Printf("%s %v\n", hello, err)
	// Output: hello <nil>
}

// The same world, stepped under a chooser: the same seed gives the same trace.
func Example_stepped() {
	trace := func(seed uint64) string {
		c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(seed)}})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		c.User("user", func(ctx context.Context) error {
			claims := c.Client().CoreV1().PersistentVolumeClaims("default")
			if _, err := claims.Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
				return err
			}
			return c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound)
		})
		if err := c.Run(context.Background()); err != nil {
			log.Fatal(err)
		}
		return c.Trace().Text()
	}
	first, again, other := trace(7), trace(7), trace(8)
	fmt.Println(first == again, first == other)
	// Output: true false
}
