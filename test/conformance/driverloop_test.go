package conformance_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/loop"
)

// A loopWorld is a node with a process of "volsim driver loop", a kubelet, and the sidecars of
// docs/drivers.md.
type loopWorld struct {
	*sidecarWorld
	program  string // path of volsim
	programs string // folder of the sidecars
	reach    []string
	socket   string
	dir      string
	args     []string
	driver   *exec.Cmd
}

// runWithLoopDriver follows docs/drivers.md: the driver registers itself with the kubelet, the
// sidecars use its socket, and pods keep their data during expansion, snapshots, clones and kills
// of the driver.
func runWithLoopDriver(t *testing.T, programs string) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		t.Skip("mkfs.xfs not found: install xfsprogs (ext4 does not support online growth everywhere)")
	}
	w := newLoopWorld(t, programs)
	claims := w.client.CoreV1().PersistentVolumeClaims("default")
	w.create(claims.Create(t.Context(), w.sized("data", "300Mi", nil), metav1.CreateOptions{}))
	w.waitForPod("web", "data")
	w.writeFile("web", "data", "first")
	w.waitForCapacity()

	w.patchClaim("data", `{"spec":{"resources":{"requests":{"storage":"340Mi"}}}}`)
	w.wait("the expansion", func(ctx context.Context) (bool, error) {
		c, err := claims.Get(ctx, "data", metav1.GetOptions{})
		return err == nil && c.Status.Capacity.Storage().Cmp(resource.MustParse("340Mi")) == 0, err
	})
	w.checkFile("web", "data", "first")

	w.snapshot("snap", "data")
	w.writeFile("web", "data", "second")
	w.create(claims.Create(t.Context(), w.sized("restored", "340Mi", &corev1.TypedLocalObjectReference{
		APIGroup: &snapshots.Group, Kind: "VolumeSnapshot", Name: "snap",
	}), metav1.CreateOptions{}))
	w.create(claims.Create(t.Context(), w.sized("cloned", "340Mi", &corev1.TypedLocalObjectReference{
		Kind: "PersistentVolumeClaim", Name: "data",
	}), metav1.CreateOptions{}))
	w.waitForPod("of-the-snapshot", "restored")
	w.checkFile("of-the-snapshot", "restored", "first")

	w.killDriver() // its sidecars exit too, because they have lost their driver
	w.checkFile("web", "data", "second")
	w.startDriver()
	w.runNodeSidecars()
	w.waitForPod("of-the-clone", "cloned")
	w.checkFile("of-the-clone", "cloned", "second")
	w.checkFile("web", "data", "second")

	w.tearDown()
	w.wait("the files of the volumes to go", func(context.Context) (bool, error) {
		left, err := os.ReadDir(filepath.Join(w.dir, "state", "volumes"))
		return err == nil && len(left) == 0, fmt.Errorf("remaining: %v: %w", left, err)
	})
	w.refusals()
}

func newLoopWorld(t *testing.T, programs string) *loopWorld {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { noLoopDevices(t, dir) })
	served := newServedWorld(t, cluster.Config{Devices: cluster.Loop, Nodes: 1, Dir: dir})
	w := &loopWorld{
		sidecarWorld: served, dir: dir, program: filepath.Join(dir, "volsim"), programs: programs,
		reach: []string{"--kube-api-qps=1000", "--kube-api-burst=1000", "--retry-interval-start=100ms"},
	}
	build := exec.Command("go", "build", "-C", "../..", "-o", w.program, "./cmd/volsim")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build volsim: %v\n%s", err, out)
	}
	kubelet, err := served.served.cluster.KubeletDir("node-1")
	if err != nil {
		t.Fatal(err)
	}
	w.socket = filepath.Join(kubelet, "plugins", driverName, "csi.sock")
	registry := filepath.Join(kubelet, "plugins_registry")
	for _, folder := range []string{filepath.Dir(w.socket), registry} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.args = []string{
		"driver", "loop", "--driver-name", driverName, "--node-id", "node-1", "--state", filepath.Join(dir, "state"), "--root", kubelet,
		"--endpoint", "unix://" + w.socket, "--kubelet-registration", filepath.Join(registry, driverName+"-reg.sock"),
	}
	w.startDriver()
	t.Cleanup(w.killDriver)
	w.setUpNode()
	w.setUpSnapshots()
	w.grantNodes("snapshot-controller")
	w.run(filepath.Join(programs, "snapshot-controller"), append([]string{"--enable-distributed-snapshotting"}, w.reach...))
	w.runNodeSidecars()
	return w
}

// startDriver starts the driver and waits until the kubelet has registered it.
func (w *loopWorld) startDriver() {
	w.t.Helper()
	w.driver = exec.Command(w.program, w.args...)
	if err := w.driver.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.wait("the driver to be registered", func(ctx context.Context) (bool, error) {
		node, err := w.client.StorageV1().CSINodes().Get(ctx, "node-1", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, d := range node.Spec.Drivers {
			if d.Name == driverName {
				return len(d.TopologyKeys) == 1, fmt.Errorf("topology keys %v", d.TopologyKeys)
			}
		}
		return false, fmt.Errorf("registered drivers: %v", node.Spec.Drivers)
	})
}

// killDriver kills the driver like kill -9. Its sockets remain.
func (w *loopWorld) killDriver() {
	if w.driver.ProcessState == nil {
		_ = w.driver.Process.Signal(syscall.SIGKILL)
		_ = w.driver.Wait() // killed
	}
}

// setUpNode creates the objects of docs/drivers.md.
func (w *loopWorld) setUpNode() {
	w.t.Helper()
	ctx := w.t.Context()
	late, policy := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.FileFSGroupPolicy
	w.create(w.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driverName},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: ptr.To(false), StorageCapacity: ptr.To(true), FSGroupPolicy: &policy, SELinuxMount: ptr.To(false),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
		},
	}, metav1.CreateOptions{}))
	w.create(w.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "real"}, Provisioner: driverName, AllowVolumeExpansion: ptr.To(true), VolumeBindingMode: &late,
		Parameters: map[string]string{"csi.storage.k8s.io/fstype": "xfs"},
	}, metav1.CreateOptions{}))
}

// runNodeSidecars runs the sidecars of a node.
func (w *loopWorld) runNodeSidecars() {
	w.t.Helper()
	for _, sidecar := range [][]string{
		{"csi-provisioner", "--node-deployment", "--strict-topology", "--immediate-topology=false", "--enable-capacity", "--capacity-ownerref-level=-1"},
		{"csi-snapshotter", "--node-deployment"},
		{"csi-resizer", "--handle-volume-inuse-error=true"},
	} {
		w.run(filepath.Join(w.programs, sidecar[0]), slices.Concat(sidecar[1:], []string{"--csi-address=unix://" + w.socket}, w.reach))
	}
}

// waitForCapacity waits until the provisioner reports the free space of the node.
func (w *loopWorld) waitForCapacity() {
	w.t.Helper()
	w.wait("the node's capacity", func(ctx context.Context) (bool, error) {
		all, err := w.client.StorageV1().CSIStorageCapacities("kube-system").List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 {
			return false, fmt.Errorf("capacities: %v, %w", all, err)
		}
		is := all.Items[0]
		return is.StorageClassName == "real" && is.Capacity.Value() > 1<<20 && is.NodeTopology.MatchLabels["loop.csi.volsim.dev/node"] == "node-1", fmt.Errorf("capacity %v", is)
	})
}

func (w *loopWorld) sized(name, size string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	claim := cluster.NewClaim(name, size)
	claim.Spec.StorageClassName, claim.Spec.DataSource = ptr.To("real"), source
	return claim
}

// waitForPod creates a pod with a claim and waits until it runs.
func (w *loopWorld) waitForPod(pod, claim string) {
	w.t.Helper()
	w.create(w.client.CoreV1().Pods("default").Create(w.t.Context(), cluster.NewPod(pod, claim), metav1.CreateOptions{}))
	w.wait("pod "+pod, func(ctx context.Context) (bool, error) {
		p, err := w.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, err
	})
}

// pattern returns half a mebibyte of data derived from a word.
func pattern(word string) []byte {
	sum := sha256.Sum256([]byte(word))
	return []byte(strings.Repeat(string(sum[:]), 16<<10))
}

func (w *loopWorld) writeFile(pod, claim, word string) {
	w.t.Helper()
	if err := w.served.cluster.WriteFile("default", pod, claim, "pattern", pattern(word)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *loopWorld) checkFile(pod, claim, word string) {
	w.t.Helper()
	found, err := w.served.cluster.ReadFile("default", pod, claim, "pattern")
	if got, want := sha256.Sum256(found), sha256.Sum256(pattern(word)); err != nil || got != want {
		w.t.Errorf("pod %s finds %x in claim %s (%v), want %x: the %s pattern", pod, got[:8], claim, err, want[:8], word)
	}
}

// noLoopDevices detaches the loop devices below a directory, which are an error unless the test has
// already failed.
func noLoopDevices(t *testing.T, dir string) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), dir) {
			t.Errorf("leaked loop device %s of %s", file, backing)
			if out, err := exec.Command("losetup", "-d", "/dev/"+strings.Split(file, "/")[3]).CombinedOutput(); err != nil {
				t.Errorf("losetup -d: %v: %s", err, out)
			}
		}
	}
}
