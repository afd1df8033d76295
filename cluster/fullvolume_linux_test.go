package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
)

// realCluster returns a live cluster on loop devices with a pod that has a volume of 64 MiB.
func realCluster(t *testing.T, cfg cluster.Config) (context.Context, *cluster.Cluster) {
	t.Helper()
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	cfg.Nodes, cfg.Devices = 1, cluster.Loop
	c := testcheck.Must(cluster.New(cfg))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	testcheck.NoError(t, c.Start(ctx), runPodWith(ctx, c, "db", "data", "64Mi"))
	return ctx, c
}

// TestFullVolumeGrows fills a real file system to the last byte. An autoscaler sees that in the
// metrics, and the pod can write again.
func TestFullVolumeGrows(t *testing.T) {
	t.Parallel()
	ctx, c := realCluster(t, cluster.Config{ClockSpeed: 100, Extra: []cluster.Component{autoscalerComponent()}})
	if err := c.WriteZeros("default", "db", "data", "fill", 1<<30); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a volume of 64 MiB takes 1 GiB: %v", err)
	}
	if err := c.WriteFile("default", "db", "data", "row", make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write to a full volume: %v, want %v", err, syscall.ENOSPC)
	}
	testcheck.NoError(t, c.Wait(ctx, "the volume to grow", func() bool { return len(grownVolumes(c)) > 0 }))
	if mayGrowExt4(t) {
		testcheck.NoError(t, c.Wait(ctx, "the claim to grow", func() bool { return capacityOf(c, "data") == "128Mi" }))
	} else { // it is grown when it is staged again
		testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "db", metav1.DeleteOptions{}),
			c.Wait(ctx, "the volume to be detached", func() bool { return len(c.Server().List("volumeattachments")) == 0 }))
		pod := cluster.NewPod("db", "data")
		pod.Spec.NodeName = "node-1"
		testcheck.Must(c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
		testcheck.NoError(t, c.WaitForPod(ctx, "default", "db", corev1.PodRunning))
	}
	testcheck.NoError(t, c.WriteFile("default", "db", "data", "row", make([]byte, 1<<20)))
	summary := testcheck.Must(c.VolumeStats(ctx, "node-1"))
	of := summary.Pods[0].VolumeStats[0]
	if *of.UsedBytes < 50<<20 || *of.AvailableBytes < 30<<20 || *of.CapacityBytes < 100<<20 || *of.Inodes == 0 {
		t.Errorf("used %d, available %d, capacity %d, inodes %d", *of.UsedBytes, *of.AvailableBytes, *of.CapacityBytes, *of.Inodes)
	}
}

// grownVolumes returns the names of the volumes of 128 MiB.
func grownVolumes(c *cluster.Cluster) []string {
	var names []string
	for _, obj := range c.Server().List("persistentvolumes") {
		if v := obj.(*corev1.PersistentVolume); v.Spec.Capacity.Storage().String() == "128Mi" {
			names = append(names, v.Name)
		}
	}
	return names
}

// TestHealthOnRealDevices makes a file system read-only, as the kernel does after errors, and writable
// again. Claim and pod have events, and the metrics say so.
func TestHealthOnRealDevices(t *testing.T) {
	t.Parallel()
	ctx, c := realCluster(t, cluster.Config{ClockSpeed: 300, HealthMonitor: true})
	has := func(events ...string) func() bool {
		return func() bool {
			got := healthEvents(c)
			return !slices.ContainsFunc(events, func(event string) bool {
				return !slices.ContainsFunc(got, func(line string) bool { return strings.HasSuffix(line, event) })
			})
		}
	}
	path := testcheck.Must(c.MountPath("default", "db", "data"))
	testcheck.NoError(t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	testcheck.NoError(t, c.Wait(ctx, "events of an abnormal volume",
		has("VolumeConditionAbnormal PersistentVolumeClaim/data", "VolumeConditionAbnormal Pod/db")))
	testcheck.NoError(t, unix.Mount("", path, "", unix.MS_REMOUNT, ""))
	testcheck.NoError(t, c.Wait(ctx, "an event of a recovered volume", has("VolumeConditionNormal PersistentVolumeClaim/data")))
}
