package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// localDisk returns a local PersistentVolume of node-2, a claim for it and a pod with the claim, all
// of one name.
func localDisk(name, path, mode string) string {
	use := "volumeMounts: [{mountPath: /data, name: data}]"
	if mode == "Block" {
		use = "volumeDevices: [{devicePath: /dev/data, name: data}]"
	}
	return strings.NewReplacer("NAME", name, "PATH", path, "MODE", mode, "USE", use).Replace(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  storageClassName: NAME
  capacity: {storage: 16Mi}
  volumeMode: MODE
  accessModes: [ReadWriteOnce]
  local: {path: PATH}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-2]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec:
  storageClassName: NAME
  volumeMode: MODE
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  securityContext: {fsGroup: 2000}
  volumes: [{name: data, persistentVolumeClaim: {claimName: NAME}}]
  containers:
  - name: main
    image: image
    USE
`)
}

// diskWorlds are stepped worlds of two nodes on each kind of disk.
func diskWorlds(t *testing.T, test func(t *testing.T, c *cluster.Cluster)) {
	t.Helper()
	for name, devices := range map[string]cluster.Devices{"memory": cluster.Array, "loop devices": cluster.Loop} {
		t.Run(name, func(t *testing.T) {
			if err := loop.Probe(); err != nil && devices == cluster.Loop {
				t.Skipf("loop devices: %v", err)
			}
			test(t, start(t, cluster.Config{Devices: devices, Stepped: &sim.SteppedConfig{}}))
		})
	}
}

// wantOnlyDisks checks that no volume is mounted on node-2, and nothing of one exists.
func wantOnlyDisks(t *testing.T, c *cluster.Cluster, disks int) {
	t.Helper()
	machine, err := c.Machine("node-2")
	testcheck.NoError(t, err)
	mounts, err := machine.FS.Mounts()
	if err != nil || len(mounts) != disks {
		t.Errorf("mounts: %v, %v, want those of %d disks", mounts, err, disks)
	}
	for _, dir := range []string{"kubernetes.io/local-volume/mounts", "kubernetes.io~local-volume/volumeDevices"} {
		names, err := machine.FS.ReadDir(machine.Path("/var/lib/kubelet/plugins/" + dir))
		if len(names) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left in %s: %v, %v", dir, names, err)
		}
	}
	leaks, err := c.Leaks()
	if err != nil || strings.Contains(fmt.Sprint(leaks), "mount ") {
		t.Errorf("leaks: %v, %v", leaks, err)
	}
}

// TestDisks uses a block device with a file system, a raw one and a RAM disk. The content survives
// the pod, a crash of the kubelet and, except that of the RAM disk, a reboot. A kubelet that was down
// when the pods were removed unmounts everything.
func TestDisks(t *testing.T) {
	diskWorlds(t, func(t *testing.T, c *cluster.Cluster) {
		ctx := t.Context()
		all := map[string]cluster.Disk{
			"formatted": {Path: "/dev/sdb", SizeBytes: 16 << 20, Block: true},
			"raw":       {Path: "/dev/sdc", SizeBytes: 16 << 20, Block: true},
			"ram":       {Path: "/mnt/disks/ram", SizeBytes: 16 << 20},
		}
		manifest := map[string]string{}
		for name, disk := range all {
			testcheck.NoError(t, c.AddDisk("node-2", disk))
			manifest[name] = localDisk(name, disk.Path, map[bool]string{true: "Block", false: "Filesystem"}[name == "raw"])
			testcheck.NoError(t, c.Apply(ctx, manifest[name]))
		}
		running := func() {
			t.Helper()
			for name := range all {
				testcheck.NoError(t, c.WaitForPod(ctx, "default", name, corev1.PodRunning))
			}
			testcheck.NoError(t, c.Run(ctx))
		}
		content := bytes.Repeat([]byte("raw "), 1024)
		device := func(use func(*os.File) error) {
			t.Helper()
			path, err := c.DevicePath("default", "raw", "data")
			testcheck.NoError(t, err)
			if kind, _ := c.Devices(); kind != cluster.Loop {
				return
			}
			file, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
			testcheck.NoError(t, err)
			testcheck.NoError(t, use(file), file.Close())
		}
		kept := func(names ...string) {
			t.Helper()
			for _, name := range names {
				if data, err := c.ReadFile("default", name, "data", "file"); err != nil || string(data) != "kept" {
					t.Errorf("%s: %q, %v", name, data, err)
				}
			}
			device(func(file *os.File) error {
				found := make([]byte, len(content))
				_, err := file.ReadAt(found, 4096)
				if err == nil && !bytes.Equal(found, content) {
					err = errors.New("the device does not have the content")
				}
				return err
			})
		}
		running()
		for _, name := range []string{"formatted", "ram"} {
			testcheck.NoError(t, c.WriteFile("default", name, "data", "file", []byte("kept")))
			path, err := c.MountPath("default", name, "data")
			testcheck.NoError(t, err)
			machine, err := c.Machine("node-2")
			testcheck.NoError(t, err)
			if info, err := machine.FS.Stat(path); err != nil || info.GID != 2000 || info.Mode&fs.ModeSetgid == 0 {
				t.Errorf("%s is of group %d, mode %v, %v, want 2000 and setgid", name, info.GID, info.Mode, err)
			}
		}
		device(func(file *os.File) error {
			_, err := file.WriteAt(content, 4096)
			return err
		})
		testcheck.NoError(t, c.Crash("kubelet(node-2)"), c.Run(ctx))
		kept("formatted", "ram")
		testcheck.NoError(t, c.Reboot("node-2"), c.Run(ctx))
		running()
		kept("formatted")
		if _, err := c.ReadFile("default", "ram", "data", "file"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the RAM disk after a reboot: %v", err)
		}

		// The pods are gone when the kubelet starts.
		testcheck.NoError(t, c.Stop("kubelet(node-2)"))
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		for name := range all {
			testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(context.Background(), name, now))
		}
		c.Repair()
		testcheck.NoError(t, c.Run(ctx))
		wantOnlyDisks(t, c, len(all))

		// A reboot without pods, after which the formatted device is not formatted again.
		testcheck.NoError(t, c.Reboot("node-2"), c.Run(ctx))
		for name := range all {
			testcheck.NoError(t, c.Apply(ctx, manifest[name]))
		}
		running()
		kept("formatted")
		for name := range all {
			testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}),
				c.WaitForGone(ctx, "pods", "default", name))
		}
		testcheck.NoError(t, c.Run(ctx))
		wantOnlyDisks(t, c, len(all))
	})
}

func TestAddDiskIsRefused(t *testing.T) {
	c := start(t, cluster.Config{Stepped: &sim.SteppedConfig{}})
	disk := cluster.Disk{Path: "/mnt/ram", SizeBytes: 1 << 20}
	testcheck.NoError(t, c.AddDisk("node-1", disk))
	if err := c.AddDisk("node-1", disk); err == nil || !strings.Contains(err.Error(), "the path exists") {
		t.Errorf("twice: %v", err)
	}
	if err := c.AddDisk("node-9", disk); !errors.Is(err, cluster.ErrUnknownComponent) {
		t.Errorf("unknown node: %v", err)
	}
	if c.AddDisk("node-2", cluster.Disk{Path: "/mnt/ram"}) == nil {
		t.Error("a disk of no bytes was added")
	}
}

// TestKubeletCrashesWithLocalDevices crashes the kubelet after each of its actions while it sets up
// a formatted and a raw device, and while it removes them. Once it is at rest the devices are mounted
// or mapped exactly once, and in the end not at all.
func TestKubeletCrashesWithLocalDevices(t *testing.T) {
	testcheck.Stepped(t)
	const kubelet = "kubelet(node-2)"
	crashes := 0
	for _, removing := range []bool{false, true} {
		for n := 1; ; n++ {
			c := start(t, cluster.Config{Stepped: &sim.SteppedConfig{}})
			ctx, host := t.Context(), c.Host().(*sim.Stepped)
			seen, armed := 0, false
			host.Log().Watch(func(r trace.Record) {
				if armed && (r.Kind == trace.KindDriver || r.Kind == trace.KindAPI) && strings.HasPrefix(r.Task, kubelet) {
					seen++
				}
			})
			crash := func(now bool) {
				if armed = now; now {
					for seen < n && host.Step() {
					}
					if armed = false; seen == n {
						crashes++
						testcheck.NoError(t, c.Crash(kubelet))
					}
				}
				testcheck.NoError(t, c.Run(ctx))
			}
			for name, mode := range map[string]string{"formatted": "Filesystem", "raw": "Block"} {
				testcheck.NoError(t, c.AddDisk("node-2", cluster.Disk{Path: "/dev/" + name, SizeBytes: 16 << 20, Block: true}),
					c.Apply(ctx, localDisk(name, "/dev/"+name, mode)))
			}
			crash(!removing)
			machine, err := c.Machine("node-2")
			testcheck.NoError(t, err)
			var at []string
			mounts, err := machine.FS.Mounts()
			testcheck.NoError(t, err)
			for _, m := range mounts {
				if rest := strings.TrimPrefix(m.Path, "/node-2/"); !strings.HasPrefix(rest, "dev/") {
					at = append(at, rest[:strings.LastIndex(rest, "/")])
				}
			}
			pod, err := c.Client().CoreV1().Pods("default").Get(ctx, "formatted", metav1.GetOptions{})
			testcheck.NoError(t, err)
			want := []string{
				"plugins/kubernetes.io/local-volume/mounts", "plugins/kubernetes.io~local-volume/volumeDevices/raw",
				"pods/" + string(pod.UID) + "/volumes/kubernetes.io~local-volume",
			}
			if diff := cmp.Diff(want, at); diff != "" {
				t.Fatalf("crash after action %d: mounts (-want +got):\n%s", n, diff)
			}
			for _, name := range []string{"formatted", "raw"} {
				testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
			}
			crash(removing)
			wantOnlyDisks(t, c, 2)
			if t.Failed() {
				t.Fatalf("removing: %v, crash after action %d\n%s", removing, n, tail(c.Trace().Text(), 40))
			}
			if seen < n {
				break
			}
		}
	}
	if crashes < 20 {
		t.Errorf("only %d crashes", crashes)
	}
	t.Logf("%d crashes", crashes)
}
