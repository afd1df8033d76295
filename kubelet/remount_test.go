package kubelet_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// republishes says in the CSIDriver that volumes are published again and again.
func republishes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	drivers := c.Client().StorageV1().CSIDrivers()
	driver, err := drivers.Get(t.Context(), c.DriverName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	driver.Spec.RequiresRepublish = &yes
	if _, err := drivers.Update(t.Context(), driver, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// published are the times at which volumes were published.
func published(c *cluster.Cluster) []time.Duration {
	var times []time.Duration
	for _, r := range c.Trace().Records() {
		if r.Kind == trace.KindDriver && r.Verb == "NodePublishVolume" {
			times = append(times, r.At)
		}
	}
	return times
}

// TestVolumesArePublishedAgain live, several times a second.
func TestVolumesArePublishedAgain(t *testing.T) {
	t.Parallel()
	const frequency = 20 * time.Millisecond
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Array, SyncFrequency: frequency})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	republishes(t, c)
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), cluster.NewPod("web", "data"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := c.Wait(ctx, "ten times", func() bool { return len(published(c)) >= 10 }); err != nil {
		t.Fatalf("%v\n%s", err, c.Trace().Text())
	}
	times := published(c)
	if took := times[9] - times[0]; took < 7*frequency {
		t.Errorf("published ten times within %v: too often for once in %v", took, frequency)
	}
}

// TestWorldRestsThatPublishesAgain since publishing what is published changes nothing.
func TestWorldRestsThatPublishesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	republishes(t, w.Cluster)
	w.create("web", "data")
	w.create("two", "more")
	w.rest()
	n := len(published(w.Cluster))
	if n < 4 {
		t.Errorf("published %d times, want each volume once more at least", n)
	}
	w.delete("web")
	w.delete("two")
	w.rest()
	before := len(published(w.Cluster))
	w.pass(time.Hour)
	testcheck.Equal(w.t, "published when no pod is there", before, len(published(w.Cluster)))
}

// TestFailedRepublishingLeavesTheMount of a running pod (I27); it is reported and retried with
// back-off.
func TestFailedRepublishingLeavesTheMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	republishes(t, w.Cluster)
	w.create("web", "data")
	testcheck.NoError(w.t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	testcheck.NoError(w.t, w.WriteFile("default", "web", "data", "f", []byte("x")))
	failed := []time.Duration{}
	w.driver = func(method string, _ any) error {
		switch {
		case method == "NodeUnpublishVolume":
			t.Error("the volume is taken away")
		case method == "NodePublishVolume" && len(failed) < 4:
			failed = append(failed, w.host.Now().Sub(w.pod("web").CreationTimestamp.Time))
			return status.Error(codes.Internal, "broken")
		}
		return nil
	}
	w.rest()
	testcheck.Equal(w.t, "times from one failure to the next", []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		[]time.Duration{failed[1] - failed[0], failed[2] - failed[1], failed[3] - failed[2]})
	events := w.events("FailedMount")
	if len(events) != 1 {
		t.Fatalf("events: %q, want one that is counted", events)
	}
	volume := w.Server().List("persistentvolumes")[0].GetName()
	testcheck.Equal(w.t, "event", `x4 Warning FailedMount web: MountVolume.SetUp failed for volume "`+volume+`" : rpc error: code = Internal desc = broken`, events[0])
	content, err := w.ReadFile("default", "web", "data", "f")
	testcheck.NoError(w.t, err)
	testcheck.Equal(w.t, "file", "x", string(content))
	testcheck.Equal(w.t, "phase", corev1.PodRunning, w.pod("web").Status.Phase)
}
