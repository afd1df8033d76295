package cluster_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// contents is the remaining device state.
type contents interface{ Files(handle string) []string }

func TestDeviceStateOfTheArrayAndTheNodes(t *testing.T) {
	c, err := cluster.New(stepped(sim.FIFO{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	truth, ctx := c.DeviceState(), t.Context()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"node-1", "node-2"}, truth.Nodes()); diff != "" || truth.Driver() != c.DriverName() ||
		len(truth.Volumes()) > 0 {
		t.Errorf("nodes (-want +got): %s; driver %s, volumes %v", diff, truth.Driver(), truth.Volumes())
	}
	pod := cluster.NewPod("web", "data")
	pod.Spec.NodeName = "node-2"
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "32Mi"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteFile("default", "web", "data", "greeting", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	persistent := c.Server().List("persistentvolumes")[0].(*corev1.PersistentVolume)
	handle := persistent.Spec.CSI.VolumeHandle
	want := invariant.Volume{
		Handle: handle, Name: persistent.Name, Attached: []string{"node-2"},
		Bytes: 32 << 20, FSBytes: 32 << 20, Attributes: map[string]string{},
	}
	got, ok := truth.Volume(handle)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]invariant.Volume{want}, truth.Volumes()); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"greeting"}, truth.(contents).Files(handle)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	path, err := c.MountPath("default", "web", "data")
	if err != nil {
		t.Fatal(err)
	}
	mounts := truth.Mounts("node-2")
	if len(mounts) != 2 || mounts[1].Source != handle || mounts[1].Path != path ||
		!strings.HasSuffix(mounts[0].Path, "/globalmount") {
		t.Errorf("mounts of node-2: %v, want %s and its staging path", mounts, path)
	}
	if _, ok := truth.Volume("other"); ok ||
		len(truth.Mounts("node-1"))+len(truth.Mounts("node-9"))+len(truth.(contents).Files("other")) > 0 {
		t.Error("an unknown volume has a state")
	}
}

func TestNoDeviceStateOfLoopDevices(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Loop, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if truth := c.DeviceState(); truth != nil {
		t.Errorf("device state: %v", truth)
	}
}
