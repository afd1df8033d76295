package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
)

// subPathPod is NewPod of one claim with subPaths of the volume, each at /mnt/<index>.
func subPathPod(name, claim string, parts ...string) *corev1.Pod {
	pod := cluster.NewPod(name, claim)
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = nil
	for i, part := range parts {
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: claim, MountPath: fmt.Sprintf("/mnt/%d", i), SubPath: part})
	}
	return pod
}

// podsWithSubPaths is a pod that writes to subPaths of a volume, a directory and a file, followed
// by one that reads there; then all is deleted.
func podsWithSubPaths(ctx context.Context, c *cluster.Cluster) error {
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, name := range []string{"first", "second"} {
		parts := []string{"logs/deep", "logs"}
		if name == "second" {
			parts = []string{"logs/deep/note", "logs"}
		}
		if _, err := pods.Create(ctx, subPathPod(name, "data", parts...), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", name, corev1.PodRunning); err != nil {
			return err
		}
		at, err := c.ContainerPath("default", name, "main", "/mnt/0")
		if err != nil {
			return err
		}
		if name == "first" {
			if err := os.WriteFile(filepath.Join(at, "note"), []byte("kept"), 0o600); err != nil {
				return err
			}
		} else if got, err := os.ReadFile(at); err != nil || string(got) != "kept" {
			return fmt.Errorf("the second pod reads %q: %w", got, err)
		}
		if at, err = c.ContainerPath("default", name, "main", "/mnt/1"); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(at, "deep", "note")); err != nil {
			return err
		}
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := c.WaitForGone(ctx, "pods", "default", name); err != nil {
			return err
		}
		if _, err := c.ContainerPath("default", name, "main", "/mnt/0"); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("path of a deleted pod: %w", err)
		}
	}
	if err := claims.Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data")
}

// TestKubeletCrashesWhileItBindsSubPaths crashes the kubelet at each step of binding and removing
// subPaths of real volumes: pods get them nevertheless, and in the end nothing is left.
func TestKubeletCrashesWhileItBindsSubPaths(t *testing.T) {
	testcheck.Stepped(t)
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	meant := func(_, verb string) bool { return strings.Contains(verb, "SubPath") }
	ordinary := &killer{lives: podsWithSubPaths, meant: meant}
	runOnDevices(t, ordinary)
	verbs := make([]string, len(ordinary.calls))
	for i, call := range ordinary.calls {
		_, verbs[i], _ = strings.Cut(call, ": ")
	}
	want := []string{
		"MakeSubPath", "BindSubPath", "BindSubPath", "UnbindSubPath", "UnbindSubPath", "RemoveSubPaths",
		"BindSubPath", "BindSubPath", "UnbindSubPath", "UnbindSubPath", "RemoveSubPaths",
	}
	if !slices.Equal(verbs, want) {
		t.Fatalf("the steps are %v, want %v", verbs, want)
	}
	for i, verb := range verbs {
		for _, after := range []bool{false, true} {
			when := map[bool]string{false: "before", true: "after"}[after]
			t.Run(fmt.Sprintf("%s %d %s", when, i+1, verb), func(t *testing.T) {
				k := &killer{n: i + 1, after: after, lives: podsWithSubPaths, meant: meant}
				runOnDevices(t, k)
				if k.seen < k.n {
					t.Errorf("it was never suspended for the %dth time", k.n)
				}
			})
		}
	}
}

// TestSubPathOutsideOfItsVolumeIsRejected has a link to this machine's directories: the pod gets
// nothing of them, and waits.
func TestSubPathOutsideOfItsVolumeIsRejected(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	dir := t.TempDir()
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Loop, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.User("user", func(ctx context.Context) error { return leadsOut(ctx, c) })
	if err := c.Run(ctx); err != nil {
		t.Fatalf("%v\npending: %v\n%s", err, c.Pending(), tail(c.Trace().Text(), 60))
	}
}

func leadsOut(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	claims, pods := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().Pods("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := pods.Create(ctx, subPathPod("inside", "data", "dir"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "inside", corev1.PodRunning); err != nil {
		return err
	}
	at, err := c.ContainerPath("default", "inside", "main", "/mnt/0")
	if err != nil {
		return err
	}
	if err := os.Symlink("/etc", filepath.Join(at, "out")); err != nil {
		return err
	}
	if _, err := pods.Create(ctx, subPathPod("outside", "data", "dir/out"), metav1.CreateOptions{}); err != nil {
		return err
	}
	const why = `failed to prepare subPath for volumeMount "data" of container "main"`
	err = c.Wait(ctx, "the container to be said not to be created", func() bool {
		obj, ok := c.Server().Get("pods", "default", "outside")
		if !ok || len(obj.(*corev1.Pod).Status.ContainerStatuses) == 0 {
			return false
		}
		waits := obj.(*corev1.Pod).Status.ContainerStatuses[0].State.Waiting
		return waits != nil && waits.Reason == "CreateContainerConfigError" && waits.Message == why
	})
	if err != nil {
		return err
	}
	if _, err := c.ContainerPath("default", "outside", "main", "/mnt/0"); !errors.Is(err, cluster.ErrNotMounted) {
		return fmt.Errorf("the pod has the subPath: %w", err)
	}
	for _, name := range []string{"inside", "outside"} {
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := c.WaitForGone(ctx, "pods", "default", name); err != nil {
			return err
		}
	}
	return claims.Delete(ctx, "data", metav1.DeleteOptions{})
}
