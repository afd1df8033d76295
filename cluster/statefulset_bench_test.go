package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// setsWorld returns a world in memory for StatefulSets.
func setsWorld(b *testing.B, cfg cluster.Config) *cluster.Cluster {
	b.Helper()
	cfg.PreRegistered = true
	c, err := cluster.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := c.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

// createSets creates sets of pods with claims, and waits until all pods are ready.
func createSets(b *testing.B, c *cluster.Cluster, replicas int32, names ...string) {
	b.Helper()
	for _, name := range names {
		set := newStatefulSet(replicas)
		set.Name = name
		set.Spec.Selector.MatchLabels = map[string]string{"app": name}
		set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
		if _, err := c.Client().AppsV1().StatefulSets("default").Create(b.Context(), set, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range names {
		err := c.Wait(b.Context(), "ready pods", func() bool {
			obj, ok := c.Server().Get("statefulsets", "default", name)
			return ok && obj.(*appsv1.StatefulSet).Status.ReadyReplicas == replicas
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStatefulSet measures the time from the creation of a set of three pods with claims, which
// start one after the other, until all are ready, in a live world in memory.
func BenchmarkStatefulSet(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		c := setsWorld(b, cluster.Config{Nodes: 3, Devices: cluster.Array})
		b.StartTimer()
		began := time.Now()
		createSets(b, c, 3, "web")
		took = append(took, time.Since(began))
		b.StopTimer()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

// BenchmarkHundredSets creates 100 sets of 10 pods with claims at once, and waits until all pods are
// ready.
func BenchmarkHundredSets(b *testing.B) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("web%d", i)
	}
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"live", cluster.Config{Nodes: 10, Devices: cluster.Array}},
		{"stepped", cluster.Config{Nodes: 10, Stepped: &sim.SteppedConfig{StepsMax: 100_000_000}}},
	} {
		b.Run(world.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := setsWorld(b, world.cfg)
				b.StartTimer()
				createSets(b, c, 10, names...)
				if host, stepped := c.Host().(*sim.Stepped); stepped {
					b.ReportMetric(float64(host.Steps()), "steps/op")
				}
			}
		})
	}
}
