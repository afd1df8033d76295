package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// orderChecker checks the driver's calls, and records the first one out of order: attach before
// stage before publish, undone in reverse; one node at a time (I15); no detach while staged (I16);
// no two concurrent stages (I17).
type orderChecker struct {
	attached  map[string]string // volume → node
	staged    map[string]bool   // volume and node
	published map[string]int    // volume and node → pods
	broken    string
}

func (o *orderChecker) see(r trace.Record) {
	if r.Kind != trace.KindDriver || r.Err != nil || o.broken != "" {
		return
	}
	volume := r.Object[strings.LastIndex(r.Object, "/")+1:]
	node := strings.TrimSuffix(strings.TrimPrefix(strings.SplitN(r.Task, "/", 2)[0], "kubelet("), ")")
	if n, ok := strings.CutPrefix(strings.SplitN(r.Detail, " ", 2)[0], "node="); ok {
		node = n
	}
	here := volume + " on " + node
	wrong := func(is bool, what string) {
		if is {
			o.broken = fmt.Sprintf("%s: %s; attached %v, staged %v, published %v", r, what,
				o.attached, o.staged, o.published)
		}
	}
	switch r.Verb {
	case "ControllerPublishVolume":
		wrong(o.attached[volume] != "" && o.attached[volume] != node, "attached to another node")
		o.attached[volume] = node
	case "ControllerUnpublishVolume":
		wrong(o.staged[here], "still staged there")
		if o.attached[volume] == node {
			delete(o.attached, volume)
		}
	case "NodeStageVolume":
		wrong(o.attached[volume] != node, "not attached there")
		o.staged[here] = true
	case "NodeUnstageVolume":
		wrong(o.published[here] > 0, "still published there")
		delete(o.staged, here)
	case "NodePublishVolume":
		wrong(!o.staged[here], "not staged there")
		o.published[here]++
	case "NodeUnpublishVolume":
		wrong(o.published[here] == 0, "not published there")
		o.published[here]--
	case "DeleteVolume":
		wrong(o.attached[volume] != "", "still attached")
	}
}

// mover moves a pod with its claim between nodes. It creates the next pod as soon as the deletion
// of the last one begins.
func mover(ctx context.Context, c *cluster.Cluster, name string, nodes ...string) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim(name, "32Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for i, node := range nodes {
		pod := cluster.NewPod(fmt.Sprintf("%s-%d", name, i), name)
		pod.Spec.NodeName = node
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if i%2 == 0 { // every other pod may be deleted before it runs
			if err := c.WaitForPod(ctx, "default", pod.Name, corev1.PodRunning); err != nil {
				return err
			}
		}
		if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return claims.Delete(ctx, name, metav1.DeleteOptions{})
}

func TestDriverCallsAreInOrderUnderSeeds(t *testing.T) {
	testcheck.Stepped(t)
	for seed := range uint64(150) {
		cfg := stepped(sim.NewSeeded(seed))
		cfg.Nodes = 3
		c, err := cluster.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		order := &orderChecker{attached: map[string]string{}, staged: map[string]bool{}, published: map[string]int{}}
		c.Trace().Watch(order.see)
		for i, name := range []string{"red", "green", "blue"} {
			nodes := []string{"node-1", "node-2", "node-3", "node-1", "node-2"}[i:]
			c.User("user "+name,
				func(ctx context.Context) error { return mover(ctx, c, name, nodes[0], nodes[1], nodes[2], nodes[0]) })
		}
		err = c.Run(t.Context())
		left, leftErr := c.Leaks()
		if err != nil || order.broken != "" || len(c.Pending()) > 0 || len(left) > 0 || leftErr != nil {
			t.Fatalf("seed %d: %v, out of order: %s, pending %v, leaks %v, %v\n%s", seed, err, order.broken,
				c.Pending(), left, leftErr, tail(c.Trace().Text(), 80))
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
