package conformance_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // one line per file system would hide the results
	status := m.Run()
	if programs.dir != "" {
		if err := os.RemoveAll(programs.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// BenchmarkLifecycle measures the life cycle of a volume, starting and ending with an empty cluster
// of two nodes: provision and bind a claim, run a pod with it, delete pod, claim and volume.
func BenchmarkLifecycle(b *testing.B) {
	b.Run("stepped/array", func(b *testing.B) {
		steps := 0
		for i := 0; b.Loop(); i++ {
			c := runCycle(b, cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(uint64(i))}})
			steps += c.Host().(*sim.Stepped).Steps()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
		b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
	})
	b.Run("live/array", func(b *testing.B) {
		for b.Loop() {
			runCycle(b, cluster.Config{Devices: cluster.Array})
		}
	})
	b.Run("live/loop", func(b *testing.B) {
		if err := loop.Probe(); err != nil {
			b.Skipf("loop devices: %v", err)
		}
		for b.Loop() {
			runCycle(b, cluster.Config{Devices: cluster.Loop, Dir: b.TempDir()})
		}
	})
}

func runCycle(b *testing.B, cfg cluster.Config) *cluster.Cluster {
	b.Helper()
	c, err := cluster.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}()
	c.User("user", func(ctx context.Context) error { return script(ctx, c) })
	if err := c.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	if leaks, err := c.Leaks(); err != nil || len(leaks) > 0 {
		b.Fatalf("leaks: %v, %v", leaks, err)
	}
	return c
}

func script(ctx context.Context, c *cluster.Cluster) error {
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := pods.Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		return err
	}
	if err := pods.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return claims.Delete(ctx, "data", metav1.DeleteOptions{})
}

// TestLifecycle checks the benchmark's script.
func TestLifecycle(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.User("user", func(ctx context.Context) error { return script(ctx, c) })
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leaks, err := c.Leaks(); err != nil || len(leaks) > 0 {
		t.Errorf("leaks: %v, %v", leaks, err)
	}
}
