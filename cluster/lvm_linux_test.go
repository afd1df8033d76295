package cluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim/trace"
)

// users are the actions of a test from outside of the cluster.
type users struct {
	*testing.T
	*cluster.Cluster
	ctx context.Context
}

// newUsers starts a cluster, which is closed when the test ends and must leave the directory empty.
func newUsers(t *testing.T, cfg cluster.Config) users {
	t.Helper()
	cfg.Dir = t.TempDir()
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // on a busy machine
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("pending: %v\n%s", c.Pending(), tail(c.Trace().Text(), 30))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, cfg.Dir)
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return users{t, c, ctx}
}

func (u users) claims(claims ...*corev1.PersistentVolumeClaim) {
	u.Helper()
	for _, claim := range claims {
		_, err := u.Client().CoreV1().PersistentVolumeClaims("default").Create(u.ctx, claim, metav1.CreateOptions{})
		testcheck.NoError(u, err)
	}
}

// creates creates a pod; on a node, unless that is "".
func (u users) creates(node string, pod *corev1.Pod) {
	u.Helper()
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	_, err := u.Client().CoreV1().Pods("default").Create(u.ctx, pod, metav1.CreateOptions{})
	testcheck.NoError(u, err)
}

// runs creates a pod that mounts claims, and waits until it runs. It returns the pod's node.
func (u users) runs(node, name string, claims ...string) string {
	u.Helper()
	u.creates(node, cluster.NewPod(name, claims...))
	testcheck.NoError(u, u.WaitForPod(u.ctx, "default", name, corev1.PodRunning))
	pod, err := u.Client().CoreV1().Pods("default").Get(u.ctx, name, metav1.GetOptions{})
	testcheck.NoError(u, err)
	return pod.Spec.NodeName
}

func (u users) ends(names ...string) {
	u.Helper()
	for _, name := range names {
		testcheck.NoError(u, u.Client().CoreV1().Pods("default").Delete(u.ctx, name, metav1.DeleteOptions{}))
		testcheck.NoError(u, u.WaitForGone(u.ctx, "pods", "default", name))
	}
}

// removes deletes claims, and waits until nothing is pending and nothing is leaked.
func (u users) removes(claims ...string) {
	u.Helper()
	for _, claim := range claims {
		testcheck.NoError(u,
			u.Client().CoreV1().PersistentVolumeClaims("default").Delete(u.ctx, claim, metav1.DeleteOptions{}))
		testcheck.NoError(u, u.WaitForGone(u.ctx, "persistentvolumeclaims", "default", claim))
	}
	testcheck.NoError(u, u.WaitForRest(u.ctx))
	if left, err := u.Leaks(); err != nil || len(left) > 0 {
		u.Errorf("leaks: %v, %v", left, err)
	}
}

func lvmOrSkip(t *testing.T) {
	t.Helper()
	if err := lvm.Probe(); err != nil {
		t.Skipf("volume groups: %v", err)
	}
}

func TestVolumesOfAVolumeGroupStayOnTheirNode(t *testing.T) {
	lvmOrSkip(t)
	u := newUsers(t, cluster.Config{Devices: cluster.LVM})
	u.claims(cluster.NewClaim("one", "32Mi"), cluster.NewClaim("two", "32Mi"))
	for i, claim := range []string{"one", "two"} {
		node := fmt.Sprintf("node-%d", i+1)
		u.runs(node, "web-"+claim, claim)
		testcheck.NoError(u, u.WriteFile("default", "web-"+claim, claim, "file", []byte(node)))
		if at := u.volumeOf(claim).Spec.NodeAffinity; at == nil || !strings.Contains(at.String(), node) {
			t.Errorf("the volume of claim %s, created on %s, is accessible from %v", claim, node, at)
		}
	}
	left, err := u.Leaks()
	if what := strings.Join(left, ", "); err != nil || strings.Count(what, "volume vol-") != 2 ||
		!strings.Contains(what, "mount ") {
		t.Errorf("leaks %s, %v; want two volumes and their mounts", what, err)
	}
	u.ends("web-one", "web-two")

	u.creates("node-2", cluster.NewPod("elsewhere", "one"))
	u.waits("elsewhere", "1 node(s) didn't match PersistentVolume's node affinity")
	u.ends("elsewhere")

	if node := u.runs("", "again", "two"); node != "node-2" {
		t.Errorf("the pod was scheduled to %s, want node-2, the node of its volume", node)
	}
	if data, err := u.ReadFile("default", "again", "two", "file"); string(data) != "node-2" || err != nil {
		t.Errorf("content %q, %v", data, err)
	}
	u.ends("again")
	u.removes("one", "two")
}

// TestFullVolumeGroupIsLeft has a claim that the group of node-1 has no space for any more. It has a volume on
// node-2 within two attempts.
func TestFullVolumeGroupIsLeft(t *testing.T) {
	lvmOrSkip(t)
	u := newUsers(t, cluster.Config{Devices: cluster.LVM, StorageCapacity: time.Minute})
	u.claims(cluster.NewClaim("one", "12Gi"), cluster.NewClaim("two", "12Gi"))
	var attempts atomic.Int32
	u.Server().OnCommit(func(made fake.Commit) {
		before, was := made.Before.(*corev1.PersistentVolumeClaim)
		after, is := made.After.(*corev1.PersistentVolumeClaim)
		if was && is && after.Name == "two" && before.Annotations[storagehelpers.AnnSelectedNode] == "" &&
			after.Annotations[storagehelpers.AnnSelectedNode] != "" {
			attempts.Add(1)
		}
	})
	u.runs("node-1", "web-one", "one")
	if node := u.runs("", "web-two", "two"); node != "node-2" || attempts.Load() > 2 {
		t.Errorf("on %s after %d attempts", node, attempts.Load())
	}
	u.ends("web-one", "web-two")
	u.removes("one", "two")
}

// waits waits until a pod cannot be scheduled for a reason.
func (u users) waits(pod, reason string) {
	u.Helper()
	testcheck.NoError(u, u.Wait(u.ctx, "pod "+pod+" to be unschedulable: "+reason, func() bool {
		obj, ok := u.Server().Get("pods", "default", pod)
		if !ok {
			return false
		}
		for _, c := range obj.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
				strings.Contains(c.Message, reason) {
				return true
			}
		}
		return false
	}))
}

// volumeOf returns the volume of a bound claim.
func (u users) volumeOf(claim string) *corev1.PersistentVolume {
	u.Helper()
	c, err := u.Client().CoreV1().PersistentVolumeClaims("default").Get(u.ctx, claim, metav1.GetOptions{})
	testcheck.NoError(u, err)
	volume, err := u.Client().CoreV1().PersistentVolumes().Get(u.ctx, c.Spec.VolumeName, metav1.GetOptions{})
	testcheck.NoError(u, err)
	return volume
}

func TestClassOfVolumeGroupsWaitsForAPod(t *testing.T) {
	lvmOrSkip(t)
	u := newUsers(t, cluster.Config{Devices: cluster.LVM, Nodes: 1})
	class, err := u.Client().StorageV1().StorageClasses().Get(u.ctx, cluster.ClassName, metav1.GetOptions{})
	testcheck.NoError(u, err)
	if mode := class.VolumeBindingMode; mode == nil || *mode != storagev1.VolumeBindingWaitForFirstConsumer {
		t.Errorf("binding mode of the class: %v", mode)
	}
}

// A cluster on volume groups that is closed at any step removes everything: LVM's metadata, its
// devices, the files.
func TestCloseAtAnyMomentLeavesNoVolumeGroup(t *testing.T) {
	lvmOrSkip(t)
	for _, at := range []string{
		"CreateVolume", "ControllerPublishVolume", "NodeStageVolume",
		"NodePublishVolume", "NodeUnstageVolume",
	} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			c, err := cluster.New(cluster.Config{Devices: cluster.LVM, Dir: dir, Nodes: 1})
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
			c.User("user", func(ctx context.Context) error { return shortLife(ctx, c) })
			c.Host().Start()
			select {
			case <-reached:
			case <-time.After(time.Minute):
				t.Error("never came there")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			nothingLeft(t, dir)
		})
	}
}

// shortLife is the life cycle of a volume on one node, without its end.
func shortLife(ctx context.Context, c *cluster.Cluster) error {
	core := c.Client().CoreV1()
	if _, err := core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "32Mi"),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := core.Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		return err
	}
	if err := core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.WaitForGone(ctx, "pods", "default", "web")
}

// A cluster that cannot be created completely is removed again: here the second node's disk fails.
func TestClusterWithoutItsVolumeGroupsLeavesNothing(t *testing.T) {
	lvmOrSkip(t)
	dir := t.TempDir()
	if err := cluster.OpenVolumeGroups(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "disk-node-2") {
		t.Errorf("a disk that is a directory: %v", err)
	}
	nothingLeft(t, dir)
}

func TestVolumeGroupsWithoutLVM(t *testing.T) {
	lvmOrSkip(t)
	empty := t.TempDir()
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mkfs, filepath.Join(empty, "mkfs.ext4")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", empty)
	if _, err := cluster.New(cluster.Config{Devices: cluster.LVM}); err == nil ||
		!strings.Contains(err.Error(), "install lvm2") {
		t.Errorf("error %v does not name the package to install", err)
	}
}
