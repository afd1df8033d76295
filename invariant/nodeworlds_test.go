package invariant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// nodeRules are the rules of attaching, mounting and nodes.
var nodeRules = []string{
	"I15", "I16", "I16b", "I17", "I18", "I19", "I20", "I21", "I22", "I24", "I25", "I26", "I27", "I35", "I36",
	"I37", "I40", "L4", "L5", "L6",
}

// moved is a user who moves a pod with its claim between nodes. It creates the next pod as soon as
// the deletion of the last one begins; every other one may be deleted before it runs. A running pod
// writes a file. The last pod stays.
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
				err := c.WriteFile("default", pod.Name, name, pod.Name, []byte(node))
				if err != nil && !(errors.Is(err, cluster.ErrNotMounted) && rebooted(c, node)) {
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

// rebooted reports whether a node has rebooted: its API objects may still say that a pod runs.
func rebooted(c *cluster.Cluster, node string) bool {
	return slices.ContainsFunc(c.Trace().Records(), func(r trace.Record) bool {
		return r.Kind == trace.KindEvent && r.Verb == "reboot" && r.Object == node
	})
}

// nodeWorld returns a world of three nodes with three such users, and its checker.
func nodeWorld(t *testing.T, host sim.SteppedConfig) (*cluster.Cluster, *invariant.Checker) {
	t.Helper()
	host.StepsMax = 20_000
	c, err := cluster.New(cluster.Config{Nodes: 3, Stepped: &host})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := invariant.Select(nodeRules...)
	if err != nil {
		t.Fatal(err)
	}
	checker := invariant.Watch(invariant.World{
		API: c.Server(), Log: c.Trace(), Now: c.Host().Now,
		Devices: c.DeviceState(),
	}, rules...)
	for i, name := range []string{"red", "green", "blue"} {
		nodes := []string{"node-1", "node-2", "node-3", "node-1", "node-2"}[i:]
		c.User("user "+name, moved(c, name, []string{nodes[0], nodes[1], nodes[2], nodes[0], nodes[0]}))
	}
	return c, checker
}

// atRest runs a world until nothing is left to do, with all components up. It fails the test if a
// rule is violated or something is pending.
func atRest(t *testing.T, seed uint64, c *cluster.Cluster, checker *invariant.Checker) {
	t.Helper()
	err := c.Run(t.Context())
	for c.Repair() {
		err = c.Run(t.Context())
	}
	if err != nil {
		t.Fatalf("seed %d: %v; violations: %v", seed, err, checker.Violations())
	}
	if pending := checker.CheckAtRest(); checker.FirstViolation() != nil || len(pending) > 0 {
		t.Fatalf("seed %d: violations %v, pending %v\n%s", seed, checker.Violations(), pending, c.Trace().Text())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func seeds(most int) uint64 {
	if testing.Short() {
		return uint64(most / 10)
	}
	return uint64(most)
}

func TestNodeRulesHoldInWorldsUnderSeeds(t *testing.T) {
	for seed := range seeds(150) {
		c, checker := nodeWorld(t, sim.SteppedConfig{Chooser: sim.NewSeeded(seed)})
		atRest(t, seed, c, checker)
	}
}

// TestNodeRulesHoldUnderEvents checks that no rule is violated under conflicts, refusals, lost
// answers, drivers that fail, hang or lie, and crashed controllers.
func TestNodeRulesHoldUnderEvents(t *testing.T) {
	for name, text := range map[string]string{
		"API":      "conflict(0.05), refused(0.03), lost(0.04)",
		"driver":   "driver Unavailable(0.05), driver Internal(0.03), driver-lost DeadlineExceeded(0.05), driver-lost Internal(0.03), hang(0.01)",
		"crashes":  "crash(attacher, 2), crash(pvcontroller, 1), crash(provisioner, 1), relist(0.02), expire(0.01), tick(0.002)",
		"kubelets": "crash(kubelet(node-1), 2), crash(kubelet(node-2), 1), reboot(node-1, 1), reboot(node-2, 1), partition(node-2, 1), restore(node-2, 0.05)",
		"stop":     "stop(attachdetach, 2), start(attachdetach, 0.05), conflict(0.02)",
	} {
		t.Run(name, func(t *testing.T) {
			risks, err := sim.ParseFaultSpecs(text)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range seeds(30) {
				chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, risks, 1200, cluster.EventKinds...)
				if err != nil {
					t.Fatal(err)
				}
				c, checker := nodeWorld(t, sim.SteppedConfig{Strategy: chaos})
				atRest(t, seed, c, checker)
			}
		})
	}
}
