package cluster_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// mountTasks are the tasks of a kubelet that stage, publish, unpublish and unstage.
var mountTasks = []string{"volume_mount", "volume_unmount", "unmount_device"}

// killer follows the default order, and crashes the kubelet of node-1 when one of its mounting
// tasks is suspended for the n-th time, before or after the call.
type killer struct {
	*sim.ReplayStrategy
	n     int    // from 1; 0 for no crash
	event string // instead of a crash of the kubelet; "": none
	after bool
	meant func(task, verb string) bool                        // which suspensions count; nil for those of mountTasks
	lives func(ctx context.Context, c *cluster.Cluster) error // the users of the world; nil for twoPods
	seen  int
	calls []string // at which a task was suspended
	due   bool
}

func (k *killer) Decide(d *sim.Decision) sim.Move {
	kill := cmp.Or(k.event, "crash kubelet(node-1)")
	if k.due {
		k.due = false
		return sim.Move{Event: kill}
	}
	move := k.ReplayStrategy.Decide(d)
	a := d.Task(move.Option)
	action, calls := a.Pending()
	task, is := strings.CutPrefix(a.Name(), "kubelet(node-1)/")
	if move.Event != "" || !calls || !is || k.meant == nil && !mounts(task) ||
		k.meant != nil && !k.meant(task, action.Verb) {
		return move
	}
	k.seen++
	k.calls = append(k.calls, task+": "+action.Verb)
	if k.seen != k.n {
		return move
	}
	if k.due = k.after; k.after {
		return move
	}
	return sim.Move{Event: kill}
}

func mounts(task string) bool {
	for _, s := range mountTasks {
		if strings.HasPrefix(task, s) {
			return true
		}
	}
	return false
}

// twoPods is a pod that writes a file, followed by one that reads it; then all is deleted.
func twoPods(ctx context.Context, c *cluster.Cluster) error {
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for i, name := range []string{"first", "second"} {
		if _, err := pods.Create(ctx, cluster.NewPod(name, "data"), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", name, corev1.PodRunning); err != nil {
			return err
		}
		if i == 0 {
			if err := c.WriteFile("default", name, "data", "note", []byte("kept")); err != nil {
				return err
			}
		} else if got, err := c.ReadFile("default", name, "data", "note"); err != nil || string(got) != "kept" {
			return fmt.Errorf("the second pod reads %q: %w", got, err)
		}
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := c.WaitForGone(ctx, "pods", "default", name); err != nil {
			return err
		}
	}
	if err := claims.Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data")
}

// runOnDevices runs twoPods on real devices, and checks that nothing is left.
func runOnDevices(t *testing.T, k *killer) {
	t.Helper()
	dir := t.TempDir()
	c, err := cluster.New(cluster.Config{
		Nodes: 1, Devices: cluster.Loop, Dir: dir, PreRegistered: true,
		Stepped: &sim.SteppedConfig{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		noLoopDevices(t, dir)
	}()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	lives := k.lives
	if lives == nil {
		lives = twoPods
	}
	c.User("user", func(ctx context.Context) error { return lives(ctx, c) })
	k.ReplayStrategy = sim.NewReplayStrategy(nil)
	c.Host().(*sim.Stepped).SetStrategy(k)
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, c.Trace().Text())
	}
	left, err := c.Leaks()
	if err != nil || len(left) > 0 {
		t.Errorf("leaks: %v, %v", left, err)
	}
	noLoopDevices(t, dir)
	for _, of := range []string{"pods", "plugins/kubernetes.io/csi/" + c.DriverName()} {
		if dirs, err := os.ReadDir(filepath.Join(dir, "node-1", of)); err == nil && len(dirs) > 0 {
			t.Errorf("leaked in %s: %v", of, dirs)
		}
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(table, []byte(dir)) {
		t.Errorf("leaked mounts below %s (%v):\n%s", dir, err, table)
	}
}

// noLoopDevices checks that there are no loop devices over files of a directory.
func noLoopDevices(t *testing.T, dir string) {
	t.Helper()
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

// A kubelet that crashes at any suspension of staging, publishing, unpublishing and unstaging, on
// real devices, reconstructs its mounts at restart: the second pod reads the file of the first one,
// and in the end nothing is left.
func TestKubeletCrashesOnRealDevices(t *testing.T) {
	testcheck.Stepped(t)
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	ordinary := &killer{}
	runOnDevices(t, ordinary)
	all := strings.Join(ordinary.calls, "\n")
	for _, call := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		if strings.Count(all, call) != 2 {
			t.Fatalf("%s was called %d times, want once for each pod:\n%s", call, strings.Count(all, call), all)
		}
	}
	for i, call := range ordinary.calls {
		for _, after := range []bool{false, true} {
			if after && !strings.Contains(call, ": Node") {
				continue // the next suspension of the task is equivalent
			}
			when := map[bool]string{false: "before", true: "after"}[after]
			t.Run(fmt.Sprintf("%s %d %s", when, i+1, call), func(t *testing.T) {
				k := &killer{n: i + 1, after: after}
				runOnDevices(t, k)
				if k.seen < k.n {
					t.Errorf("it was never suspended for the %dth time", k.n)
				}
			})
		}
	}
}

// node1Pod returns a world of one node with a running pod.
func node1Pod(t *testing.T) (*cluster.Cluster, *nodefs.Memory) {
	t.Helper()
	var disk *nodefs.Memory
	c, err := cluster.New(cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}, Interceptors: cluster.Interceptors{
		FS: func(_ string, own nodefs.FS) nodefs.FS {
			disk = own.(*nodefs.Memory)
			return own
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.User("user", func(ctx context.Context) error {
		_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx,
			cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{})
		if err == nil {
			_, err = c.Client().CoreV1().Pods("default").Create(ctx,
				cluster.NewPod("web", "data"), metav1.CreateOptions{})
		}
		return err
	})
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, disk
}

func podOf(t *testing.T, c *cluster.Cluster) *corev1.Pod {
	t.Helper()
	obj, ok := c.Server().Get("pods", "default", "web")
	if !ok {
		t.Fatal("the pod does not exist")
	}
	return obj.(*corev1.Pod)
}

// A rebooted node mounts its pods' volumes again and restarts their containers; a restarted kubelet
// does not.
func TestContainersRestartAfterAReboot(t *testing.T) {
	c, disk := node1Pod(t)
	for _, tt := range []struct {
		what     string
		inject   func() error
		restarts int32
	}{
		{"kubelet crash", func() error { return c.Crash("kubelet(node-1)") }, 0},
		{"reboot", func() error { return c.Reboot("node-1") }, 1},
		{"second reboot", func() error { return c.Reboot("node-1") }, 2},
	} {
		if err := tt.inject(); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		pod := podOf(t, c)
		path, err := c.MountPath("default", "web", "data")
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("%s: pod is %s, its volume at %q, %v", tt.what, pod.Status.Phase, path, err)
		}
		if got := pod.Status.ContainerStatuses[0].RestartCount; got != tt.restarts {
			t.Errorf("%s: %d restarts, want %d", tt.what, got, tt.restarts)
		}
		if mounts, err := disk.Mounts(); err != nil || len(mounts) != 2 {
			t.Errorf("%s: mounts %v, %v, want two", tt.what, mounts, err)
		}
	}
}

// The directory of a deleted pod is removed only if it holds nothing but empty directories: files
// stay, and so do mounts.
func TestDirectoryOfAPodIsRemovedOnlyIfItIsEmpty(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(disk *nodefs.Memory, dir string) error
		stays bool
	}{
		{"empty directories", func(disk *nodefs.Memory, dir string) error {
			return disk.MkdirAll(dir + "/volumes/example.com~old/x")
		}, false},
		{"a file", func(disk *nodefs.Memory, dir string) error {
			return disk.WriteFile(dir+"/note", []byte("kept"))
		}, true},
		{"an unknown mount", func(disk *nodefs.Memory, dir string) error {
			return errors.Join(disk.MkdirAll(dir+"/volumes/x"),
				disk.MountTree(nodefs.NewTree(), "x", dir+"/volumes/x", false))
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, disk := node1Pod(t)
			dir := "/node-1/pods/" + string(podOf(t, c).UID)
			if err := tt.leave(disk, dir); err != nil {
				t.Fatal(err)
			}
			if err := c.Stop("kubelet(node-1)"); err != nil {
				t.Fatal(err)
			}
			c.User("user", func(ctx context.Context) error {
				now := int64(0)
				return c.Client().CoreV1().Pods("default").Delete(ctx, "web",
					metav1.DeleteOptions{GracePeriodSeconds: &now})
			})
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.Repair(); !c.Degraded() {
				if err := c.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if there, err := disk.Exists(dir); err != nil || there != tt.stays {
				t.Errorf("the directory exists: %t, %v, want %t", there, err, tt.stays)
			}
			if _, err := c.MountPath("default", "web", "data"); err == nil {
				t.Error("the volume is mounted")
			}
		})
	}
}
