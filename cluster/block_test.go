package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// blockClaim and blockPod are NewClaim and NewPod for a block volume.
func blockClaim(name string) *corev1.PersistentVolumeClaim {
	claim, mode := cluster.NewClaim(name, "32Mi"), corev1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &mode
	return claim
}

func blockPod(name, claim string) *corev1.Pod {
	pod := cluster.NewPod(name, claim)
	c := &pod.Spec.Containers[0]
	c.VolumeMounts, c.VolumeDevices = nil, []corev1.VolumeDevice{{Name: claim, DevicePath: "/dev/" + claim}}
	return pod
}

// blockLife is the life cycle of a block volume: provisioned, used as a device on node-1, then on
// node-2, deleted. look checks the device on each node.
func blockLife(ctx context.Context, c *cluster.Cluster, look func(node, path string) error) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, blockClaim("data"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, node := range []string{"node-1", "node-2"} {
		if _, err := pods.Create(ctx, blockPod("web", "data"), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
			return err
		}
		path, err := c.DevicePath("default", "web", "data")
		if err != nil {
			return err
		}
		if _, err := c.MountPath("default", "web", "data"); !errors.Is(err, cluster.ErrNotMounted) {
			return fmt.Errorf("the device is mounted as well: %w", err)
		}
		if err := look(node, path); err != nil {
			return fmt.Errorf("on %s: %w", node, err)
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
		if _, err := c.DevicePath("default", "web", "data"); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("device of a deleted pod: %w", err)
		}
	}
	return claims.Delete(ctx, "data", metav1.DeleteOptions{})
}

// runBlock runs the life cycle of a block volume in a cluster and returns it at rest. It fails the
// test if anything is pending or leaked then.
func runBlock(t *testing.T, cfg cluster.Config, look func(node, path string) error) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.User("user", func(ctx context.Context) error { return blockLife(ctx, c, look) })
	if err := c.Run(ctx); err != nil {
		t.Fatalf("%v\npending: %v\n%s", err, c.Pending(), tail(c.Trace().Text(), 60))
	}
	left, err := c.Leaks()
	if pending := c.Pending(); len(pending) > 0 || err != nil || len(left) > 0 {
		t.Fatalf("at rest: pending %v, leaks %v, %v\n%s", pending, left, err, tail(c.Trace().Text(), 60))
	}
	return c
}

func TestLifecycleOfABlockVolume(t *testing.T) {
	chooser := map[string]sim.Chooser{"ordinary course": sim.FIFO{}}
	for seed := range uint64(50) {
		chooser[fmt.Sprint("seed ", seed)] = sim.NewSeeded(seed)
	}
	for name, each := range chooser {
		nodes := 0
		runBlock(t, stepped(each), func(string, string) error { nodes++; return nil })
		if nodes != 2 {
			t.Errorf("%s: used on %d nodes, want 2", name, nodes)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestBlockVolumeOnRealDevices writes through the pod's link on node-1, and reads it on node-2.
func TestBlockVolumeOnRealDevices(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	dir := t.TempDir()
	content := bytes.Repeat([]byte("raw block "), 512)[:4096]
	runBlock(t, cluster.Config{Devices: cluster.Loop, Dir: dir}, func(node, path string) error {
		device, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
		if err != nil {
			return err
		}
		defer device.Close()
		found := make([]byte, len(content))
		if _, err := device.ReadAt(found, 1<<20); err != nil {
			return err
		}
		if node == "node-1" {
			_, err = device.WriteAt(content, 1<<20)
			return err
		}
		if !bytes.Equal(found, content) {
			return errors.New("the device does not contain the data written on the other node")
		}
		return nil
	})
	nothingLeft(t, dir)
	noGoroutineOfOurs(t)
}
