package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// localDisks are the classes of the worlds with discovery.
const localDisks = `
local: {hostDir: /mnt/fast}
raw: {hostDir: /mnt/raw, volumeMode: Block}
kept: {hostDir: /mnt/kept, fsType: ext4}
`

// localClasses creates the classes.
func localClasses(ctx context.Context, c *cluster.Cluster) error {
	raw := strings.ReplaceAll(localClass, "name: local", "name: raw")
	kept := strings.ReplaceAll(localClass, "name: local", "name: kept") + "reclaimPolicy: Retain\n"
	return errors.Join(c.Apply(ctx, localClass), c.Apply(ctx, raw), c.Apply(ctx, kept))
}

// volumesAt returns the phase and the capacity of each volume, by class and path.
func volumesAt(c *cluster.Cluster) map[string]string {
	found := map[string]string{}
	for _, obj := range c.Server().List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		size := v.Spec.Capacity[corev1.ResourceStorage]
		node := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
		found[node+" "+v.Spec.StorageClassName+" "+v.Spec.Local.Path] = fmt.Sprintf("%s %s %s", v.Status.Phase, *v.Spec.VolumeMode, &size)
	}
	return found
}

// TestLocalDisksAreFoundUsedAndCleaned has the disks of two nodes become volumes, pods use them, and
// released ones be cleaned and found again, or be kept.
func TestLocalDisksAreFoundUsedAndCleaned(t *testing.T) {
	for name, devices := range map[string]cluster.Devices{"memory": cluster.Array, "loop devices": cluster.Loop} {
		t.Run(name, func(t *testing.T) {
			if err := loop.Probe(); err != nil && devices == cluster.Loop {
				t.Skipf("loop devices: %v", err)
			}
			c, ctx := start(t, cluster.Config{Devices: devices, LocalDisks: localDisks, Stepped: &sim.SteppedConfig{}}), t.Context()
			testcheck.NoError(t, c.AddDisk("node-2", cluster.Disk{Path: "/mnt/fast/ram", SizeBytes: 16<<20 + 4096}),
				c.AddDisk("node-2", cluster.Disk{Path: "/mnt/raw/sdb", SizeBytes: 16 << 20, Block: true}))
			node, err := c.Machine("node-2")
			testcheck.NoError(t, err)
			// What is no disk is ignored.
			testcheck.NoError(t, node.FS.MkdirAll(node.Path("/mnt/fast/directory")), node.FS.WriteFile(node.Path("/mnt/fast/file"), nil))
			testcheck.NoError(t, localClasses(ctx, c), c.Run(ctx))
			available := map[string]string{
				"node-2 local /mnt/fast/ram": "Available Filesystem 16Mi", "node-2 raw /mnt/raw/sdb": "Available Block 16Mi",
			}
			if diff := cmp.Diff(available, volumesAt(c)); diff != "" {
				t.Fatalf("volumes (-want +got):\n%s", diff)
			}
			// A disk that is added later, for which the node is looked at.
			testcheck.NoError(t, c.AddDisk("node-1", cluster.Disk{Path: "/mnt/kept/sdc", SizeBytes: 32 << 20, Block: true}), c.Run(ctx))
			available["node-1 kept /mnt/kept/sdc"] = "Available Filesystem 32Mi"
			if diff := cmp.Diff(available, volumesAt(c)); diff != "" {
				t.Fatalf("volumes (-want +got):\n%s", diff)
			}

			testcheck.NoError(t, c.Apply(ctx, delayedUser("fast", "8Mi")),
				c.Apply(ctx, strings.ReplaceAll(delayedUser("kept", "8Mi"), "storageClassName: local", "storageClassName: kept")),
				c.Apply(ctx, strings.NewReplacer("storageClassName: local", "storageClassName: raw\n  volumeMode: Block",
					"volumeMounts: [{mountPath: /data, name: data}]",
					"volumeDevices: [{devicePath: /dev/data, name: data}]").Replace(delayedUser("device", "8Mi"))))
			for _, name := range []string{"fast", "kept", "device"} {
				testcheck.NoError(t, c.WaitForPod(ctx, "default", name, corev1.PodRunning))
			}
			for _, name := range []string{"fast", "kept"} {
				testcheck.NoError(t, c.WriteFile("default", name, "data", "secret", []byte("mine")))
			}
			if devices == cluster.Loop {
				path, err := c.DevicePath("default", "device", "data")
				testcheck.NoError(t, err)
				file, err := os.OpenFile(path, os.O_WRONLY|os.O_SYNC, 0)
				testcheck.NoError(t, err)
				_, err = file.WriteAt([]byte("mine"), 1<<20)
				testcheck.NoError(t, err, file.Close())
			}
			before := uids(c)
			for _, name := range []string{"fast", "kept", "device"} {
				testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}),
					c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}))
			}
			testcheck.NoError(t, c.Run(ctx))
			available["node-1 kept /mnt/kept/sdc"] = "Released Filesystem 32Mi"
			if diff := cmp.Diff(available, volumesAt(c)); diff != "" {
				t.Fatalf("volumes (-want +got):\n%s", diff)
			}
			after := uids(c)
			same := slices.DeleteFunc(slices.Clone(after), func(uid string) bool { return !slices.Contains(before, uid) })
			if len(same) != 1 {
				t.Errorf("%d volumes are the same as before, want only the one that is kept", len(same))
			}
			if names, err := node.FS.ReadDir(node.Path("/mnt/fast/ram")); err != nil || len(names) > 0 {
				t.Errorf("left on the disk: %v, %v", names, err)
			}
			if devices == cluster.Loop {
				content, err := os.ReadFile(filepath.Join(node.Root, "mnt/raw/sdb"))
				if err != nil || len(content) != 16<<20 || !bytes.Equal(content, make([]byte, len(content))) {
					t.Errorf("left on the device: %d bytes, %v", len(content), err)
				}
			}
		})
	}
}

// uids returns the UIDs of the volumes.
func uids(c *cluster.Cluster) []string {
	var all []string
	for _, obj := range c.Server().List("persistentvolumes") {
		all = append(all, string(obj.GetUID()))
	}
	return all
}

// TestLocalProvisionerCrashes crashes the provisioner of a node after each of its actions while a
// volume is reclaimed. In the end there is one volume, available, and its disk is empty.
func TestLocalProvisionerCrashes(t *testing.T) {
	const component = "localprovisioner(node-2)"
	for n := 1; ; n++ {
		c, ctx := start(t, cluster.Config{LocalDisks: localDisks, Stepped: &sim.SteppedConfig{}}), t.Context()
		testcheck.NoError(t, c.AddDisk("node-2", cluster.Disk{Path: "/mnt/fast/ram", SizeBytes: 16 << 20}), localClasses(ctx, c),
			c.Apply(ctx, delayedUser("fast", "8Mi")), c.WaitForPod(ctx, "default", "fast", corev1.PodRunning),
			c.WriteFile("default", "fast", "data", "secret", []byte("mine")),
			c.Client().CoreV1().Pods("default").Delete(ctx, "fast", metav1.DeleteOptions{}),
			c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "fast", metav1.DeleteOptions{}))
		host, seen := c.Host().(*sim.Stepped), 0
		for _, r := range host.Log().Records() {
			if strings.HasPrefix(r.Task, component) {
				seen--
			}
		}
		count := func() int {
			all := 0
			for _, r := range host.Log().Records() {
				if strings.HasPrefix(r.Task, component) {
					all++
				}
			}
			return all + seen
		}
		for count() < n && host.Step() {
		}
		ended := count() < n
		if !ended {
			testcheck.NoError(t, c.Crash(component))
		}
		testcheck.NoError(t, c.Run(ctx))
		if diff := cmp.Diff(map[string]string{"node-2 local /mnt/fast/ram": "Available Filesystem 16Mi"}, volumesAt(c)); diff != "" {
			t.Fatalf("crash after action %d (-want +got):\n%s\n%s", n, diff, tail(c.Trace().Text(), 60))
		}
		node, err := c.Machine("node-2")
		testcheck.NoError(t, err)
		if names, err := node.FS.ReadDir(node.Path("/mnt/fast/ram")); err != nil || len(names) > 0 {
			t.Fatalf("crash after action %d: left on the disk: %v, %v", n, names, err)
		}
		if ended {
			if n < 5 {
				t.Errorf("only %d actions", n)
			}
			return
		}
	}
}
