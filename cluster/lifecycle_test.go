package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// lifecycle is the life cycle of a volume as a user sees it: provisioned, written on node-1, read
// on node-2, deleted.
func lifecycle(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	content := []byte("hello")
	for _, node := range []string{"node-1", "node-2"} {
		pod := cluster.NewPod("web", "data")
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} // the scheduler may see changes of nodes late
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
			return err
		}
		pod, err := pods.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != node {
			return fmt.Errorf("pod is on %s, want %s", pod.Spec.NodeName, node)
		}
		found, err := c.ReadFile("default", "web", "data", "file")
		switch {
		case node == "node-1" && err == nil:
			return fmt.Errorf("a new volume contains a file: %q", found)
		case node == "node-2" && (err != nil || !bytes.Equal(found, content)):
			return fmt.Errorf("content of the file on node-2: %q, %w", found, err)
		}
		if err := c.WriteFile("default", "web", "data", "file", content); err != nil {
			return err
		}
		if _, err := c.Client().CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
			[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := pods.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := c.WaitForGone(ctx, "pods", "default", "web"); err != nil {
			return err
		}
	}
	return claims.Delete(ctx, "data", metav1.DeleteOptions{})
}

// run runs the life cycle of a volume in a cluster and returns it at rest. It fails the test if
// anything is pending or leaked then.
func run(tb testing.TB, cfg cluster.Config) *cluster.Cluster {
	tb.Helper()
	c, err := cluster.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.User("user", func(ctx context.Context) error { return lifecycle(ctx, c) })
	if err := c.Run(ctx); err != nil {
		tb.Fatalf("%v\npending: %v\n%s", err, c.Pending(), tail(c.Trace().Text(), 60))
	}
	if pending := c.Pending(); len(pending) > 0 {
		tb.Fatalf("pending at rest: %v\n%s", pending, tail(c.Trace().Text(), 60))
	}
	left, err := c.Leaks()
	if err != nil || len(left) > 0 {
		tb.Fatalf("leaks at rest: %v, %v", left, err)
	}
	return c
}

func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

func stepped(chooser sim.Chooser) cluster.Config {
	return cluster.Config{Stepped: &sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}}
}

func TestLifecycleInTheDefaultOrder(t *testing.T) {
	c := run(t, stepped(sim.FIFO{}))
	var writes []string
	for _, r := range c.Trace().Records() {
		if r.Kind == trace.KindAPI && r.Err == nil && r.Task == "pvcontroller/claims" &&
			!strings.HasPrefix(r.Verb, "get") {
			resource, _, _ := strings.Cut(r.Object, "/")
			writes = append(writes, r.Verb+" "+resource)
		}
	}
	// The provisioner's annotations, then the four writes of a binding, the first of which the
	// provisioner has made.
	want := []string{
		"update persistentvolumeclaims", "update/status persistentvolumes", "update persistentvolumeclaims",
		"update/status persistentvolumeclaims",
	}
	if diff := cmp.Diff(want, writes[:min(4, len(writes))]); diff != "" {
		t.Errorf("writes of the claim worker (-want +got):\n%s", diff)
	}
}

func TestLifecycleUnderSeeds(t *testing.T) {
	seeds := 1000
	if testing.Short() {
		seeds = 50
	}
	began := time.Now()
	conflicts, steps := 0, 0
	for seed := range seeds {
		c := run(t, stepped(sim.NewSeeded(uint64(seed))))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		steps += c.Host().(*sim.Stepped).Steps()
		for _, r := range c.Trace().Records() {
			if apierrors.IsConflict(r.Err) {
				conflicts++
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules, %d steps, %d retried conflicts, %.0f schedules/s, %.1f µs a step",
		seeds, steps, conflicts, float64(seeds)/took.Seconds(), float64(took.Microseconds())/float64(steps))
	if conflicts == 0 {
		t.Error("no conflict in any of the schedules: they do not interleave")
	}
}

func TestSameSeedGivesTheSameTrace(t *testing.T) {
	for seed := range uint64(20) {
		first := run(t, stepped(sim.NewSeeded(seed))).Trace().Text()
		second := run(t, stepped(sim.NewSeeded(seed))).Trace().Text()
		if first != second {
			t.Fatalf("seed %d: two runs differ:\n%s", seed,
				cmp.Diff(strings.Split(first, "\n"), strings.Split(second, "\n")))
		}
		if _, err := trace.Parse(first); err != nil {
			t.Fatalf("seed %d: the trace does not parse back: %v", seed, err)
		}
	}
}

func TestLifecycleLive(t *testing.T) {
	for _, devices := range []cluster.Devices{cluster.Array, cluster.Loop} {
		t.Run(string(devices), func(t *testing.T) {
			if err := loop.Probe(); devices == cluster.Loop && err != nil {
				t.Skipf("loop devices: %v", err)
			}
			dir := t.TempDir()
			run(t, cluster.Config{Devices: devices, Dir: dir})
			nothingLeft(t, dir)
			noGoroutineOfOurs(t)
		})
	}
}

// noGoroutineOfOurs waits until no goroutine runs code of this module except the tests. A goroutine
// that has reported its end may take a moment to return, and so may those of a stopped gRPC server.
func noGoroutineOfOurs(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if it fails
	defer cancel()
	for left := goroutinesOfOurs(); len(left) > 0; left = goroutinesOfOurs() {
		if ctx.Err() != nil {
			t.Fatalf("leaked goroutines:\n%s", strings.Join(left, "\n\n"))
		}
		runtime.Gosched()
	}
}

func goroutinesOfOurs() (stacks []string) {
	buf := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "github.com/volsim/volsim/") && !strings.Contains(stack, "/cluster_test.") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// nothingLeft checks that a directory is empty, without mounts below it or loop devices over its
// files.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if p != dir {
			t.Errorf("leaked: %s", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("leaked mount below %s", dir)
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		if backing, err := os.ReadFile(f); err == nil && bytes.Contains(backing, []byte(dir)) {
			t.Errorf("leaked loop device %s over %s", f, backing)
		}
	}
}

// TestCloseAtAnyMomentLeavesNothing checks that a cluster closed at any step removes everything.
func TestCloseAtAnyMomentLeavesNothing(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	for _, at := range []string{
		"CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume",
		"NodeUnpublishVolume", "ControllerUnpublishVolume",
	} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			c, err := cluster.New(cluster.Config{Devices: cluster.Loop, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			reached := make(chan struct{})
			c.Trace().Watch(func(r trace.Record) {
				if r.Kind == trace.KindDriver && r.Verb == at {
					select {
					case <-reached:
					default:
						close(reached)
					}
				}
			})
			c.User("user", func(ctx context.Context) error { return lifecycle(ctx, c) })
			c.Host().Start()
			select {
			case <-reached:
			case <-time.After(time.Minute):
				t.Error("the step was never reached")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			nothingLeft(t, dir)
		})
	}
}

func BenchmarkLifecycleStepped(b *testing.B) {
	steps := 0
	for i := 0; b.Loop(); i++ {
		steps += run(b, stepped(sim.NewSeeded(uint64(i)))).Host().(*sim.Stepped).Steps()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
}
