package invariant_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// nodeRules are those about attaching, mounting and nodes.
var nodeRules = []string{
	"I15", "I16", "I16b", "I17", "I18", "I19", "I20", "I21", "I22", "I24", "I25", "I26", "I27", "I35", "I36", "I37", "L4", "L5", "L6",
}

// moved is a user who moves a pod with its claim over nodes: the next pod is made as soon as the last was told to end, and
// every other one is told so, perhaps, before it runs. A pod that runs writes a file. The last pod stays.
func moved(c *cluster.Cluster, name string, nodes []string) func(context.Context) error {
	return func(ctx context.Context) error {
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
			if i%2 == 0 {
				if err := c.WaitForPod(ctx, "default", pod.Name, corev1.PodRunning); err != nil {
					return err
				}
				if err := c.WriteFile("default", pod.Name, name, pod.Name, []byte(node)); err != nil {
					return err
				}
			}
			if i == len(nodes)-1 {
				return nil
			}
			if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
}

// nodeWorld is a world of three nodes with three such users, watched.
func nodeWorld(t *testing.T, seed uint64) (*cluster.Cluster, *invariant.Checker) {
	t.Helper()
	c, err := cluster.New(cluster.Config{Nodes: 3, Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(seed), StepsMax: 20_000}})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := invariant.Select(nodeRules...)
	if err != nil {
		t.Fatal(err)
	}
	checker := invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: c.Host().Now, Devices: c.Truth()}, rules...)
	for i, name := range []string{"red", "green", "blue"} {
		nodes := []string{"node-1", "node-2", "node-3", "node-1", "node-2"}[i:]
		c.User("user "+name, moved(c, name, []string{nodes[0], nodes[1], nodes[2], nodes[0], nodes[0]}))
	}
	return c, checker
}

func TestNodeRulesHoldInWorldsUnderSeeds(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		c, checker := nodeWorld(t, seed)
		if err := c.Run(t.Context()); err != nil {
			t.Fatalf("seed %d: %v; broken: %v", seed, err, checker.Violations())
		}
		if owed := checker.Rest(); checker.Broken() != nil || len(owed) > 0 {
			t.Fatalf("seed %d: broken %v, owed %v\n%s", seed, checker.Violations(), owed, c.Trace().Text())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
