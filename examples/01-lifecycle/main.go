// Command 01-lifecycle is the life of a volume as a program to read: a claim is provisioned, a pod on node-1 writes a
// file, the pod comes back on node-2 and reads it, and everything goes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
)

func main() {
	if err := run(context.Background(), os.Stdout, cluster.Auto); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, devices cluster.Devices) error {
	c, err := cluster.New(cluster.Config{Nodes: 2, Devices: devices})
	if err != nil {
		return err
	}
	defer c.Close() // takes away every mount, device and file
	if err := c.Start(ctx); err != nil {
		return err
	}
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")

	claims.Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
		return err
	}
	claim, _ := claims.Get(ctx, "data", metav1.GetOptions{})
	fmt.Fprintln(out, "bound, capacity", claim.Status.Capacity.Storage())

	for _, node := range []string{"node-1", "node-2"} {
		pod := cluster.NewPod("web", "data")
		pod.Spec.NodeName = node
		pods.Create(ctx, pod, metav1.CreateOptions{})
		if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
			return err
		}
		before, _ := c.ReadFile("default", "web", "data", "log.txt") // nothing the first time
		c.WriteFile("default", "web", "data", "log.txt", append(before, "running on "+node+"\n"...))
		log, _ := c.ReadFile("default", "web", "data", "log.txt")
		fmt.Fprintf(out, "on %s the file says:\n%s", node, log)

		pods.Delete(ctx, "web", metav1.DeleteOptions{})
		if err := c.WaitForGone(ctx, "pods", "default", "web"); err != nil {
			return err
		}
	}
	claims.Delete(ctx, "data", metav1.DeleteOptions{})
	if err := c.WaitForRest(ctx); err != nil {
		return err
	}
	left, err := c.Left()
	fmt.Fprintln(out, "left:", len(left))
	return err
}
