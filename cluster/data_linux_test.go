package cluster_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim"
)

// dataClass is the class of the checked volumes; its file system is the case's.
const dataClass = "data"

// kept is a volume with checked data, of a driver and with a file system.
type kept struct {
	users
	fsType  string // "" for a block volume
	home    string // first node of the pods
	away    string // second node
	sizeMiB int64  // of new claims: the minimum of the file system
}

// TestDataOfPodsSurvive writes patterns through pods, and reads them again after each event in the
// life of a volume. Kubelet, driver and machine restart. The volume is expanded, snapshotted,
// overwritten, restored and cloned, and its pod moves to another node. The world is stepped, so
// that a crash takes effect. There is no snapshotter: the test takes the snapshot from the driver,
// and an administrator creates a volume from it.
func TestDataOfPodsSurvive(t *testing.T) {
	testcheck.Stepped(t)
	probes := map[cluster.Devices]func() error{cluster.Loop: loop.Probe, cluster.LVM: lvm.Probe}
	least := map[string]int64{"ext4": 24, "xfs": 300, "btrfs": 256, "": 24}
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		for _, fsType := range []string{"ext4", "xfs", "btrfs", ""} {
			t.Run(fmt.Sprintf("%s/%s", devices, cmp.Or(fsType, "block")), func(t *testing.T) {
				if err := probes[devices](); err != nil {
					t.Skipf("devices %s: %v", devices, err)
				}
				if fsType != "" && !slices.Contains(blockcsi.FSTypes(), fsType) {
					t.Skipf("missing tools for %s", fsType)
				}
				k := kept{
					users:  newUsers(t, cluster.Config{Devices: devices, Stepped: &sim.SteppedConfig{}}),
					fsType: fsType, home: "node-1", away: "node-2", sizeMiB: least[fsType],
				}
				if devices == cluster.LVM {
					k.away = k.home
				}
				k.survive()
			})
		}
	}
}

// survive applies the events to the volume of claim "data", in sequence.
func (k kept) survive() {
	k.class()
	k.claims(k.claim("data", nil))
	k.pod(k.home, "web", "data")
	k.write("web", "data", "first")

	testcheck.NoError(k, k.Crash("kubelet("+k.home+")"))
	k.pod(k.home, "second", "data") // the kubelet has restarted and publishes the volume for another pod
	k.finds("second", "data", "first")
	k.ends("second")

	testcheck.NoError(k, k.StopDriver(k.home))
	k.finds("web", "data", "first")
	k.creates(k.home, k.newPod("late", "data"))
	testcheck.NoError(k, k.StartDriver(k.home))
	k.running("late")
	k.finds("late", "data", "first")
	k.ends("late")

	testcheck.NoError(k, k.Reboot(k.home))
	k.restarted("web")
	k.finds("web", "data", "first")

	before := k.blocks("web", "data")
	k.grow("web", "data")
	k.finds("web", "data", "first")

	snapshot := k.snapshot("web", "data")
	k.write("web", "data", "second")
	k.claims(k.restored("restored", snapshot))
	k.pod(k.home, "of-the-snapshot", "restored")
	k.finds("of-the-snapshot", "restored", "first")
	k.finds("web", "data", "second")

	if k.fsType == "" { // a device in use is not copied
		k.ends("web")
	}
	k.claims(k.claim("cloned", &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}))
	k.pod(k.home, "of-the-clone", "cloned")
	k.finds("of-the-clone", "cloned", "second")
	k.write("of-the-clone", "cloned", "third")
	if k.fsType != "" {
		k.finds("web", "data", "second")
		k.ends("web")
	}

	k.pod(k.away, "web", "data")
	k.finds("web", "data", "second")
	k.isGrown("web", "data", before)
	k.ends("web", "of-the-clone", "of-the-snapshot")
	k.forget(snapshot)
	k.removes("data", "cloned", "restored")
}

// class creates the class of the case.
func (k kept) class() {
	k.Helper()
	late, grows := storagev1.VolumeBindingWaitForFirstConsumer, true
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: dataClass}, Provisioner: k.DriverName(),
		VolumeBindingMode: &late, AllowVolumeExpansion: &grows,
	}
	if k.fsType != "" {
		class.Parameters = map[string]string{"csi.storage.k8s.io/fstype": k.fsType}
	}
	_, err := k.Client().StorageV1().StorageClasses().Create(k.ctx, class, metav1.CreateOptions{})
	testcheck.NoError(k, err)
}

// grownMiB is the size of volumes after expansion.
func (k kept) grownMiB() int64 { return k.sizeMiB + 40 }

func mebibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

// claim creates a claim of the class; one from a source has the expanded size of the source.
func (k kept) claim(name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	size := mebibytes(k.sizeMiB)
	if source != nil {
		size = mebibytes(k.grownMiB())
	}
	claim := cluster.NewClaim(name, size.String())
	class := dataClass
	claim.Spec.StorageClassName, claim.Spec.DataSource = &class, source
	if k.fsType == "" {
		mode := corev1.PersistentVolumeBlock
		claim.Spec.VolumeMode = &mode
	}
	return claim
}

func (k kept) newPod(name, claim string) *corev1.Pod {
	pod := cluster.NewPod(name, claim)
	if k.fsType == "" {
		pod.Spec.Containers[0].VolumeMounts = nil
		pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: claim, DevicePath: "/dev/data"}}
	}
	return pod
}

func (k kept) pod(node, name, claim string) {
	k.Helper()
	k.creates(node, k.newPod(name, claim))
	k.running(name)
}

func (k kept) running(pod string) {
	k.Helper()
	testcheck.NoError(k, k.WaitForPod(k.ctx, "default", pod, corev1.PodRunning))
}

// restarted waits until a pod's container runs again after the machine was restarted.
func (k kept) restarted(pod string) {
	k.Helper()
	testcheck.NoError(k, k.Wait(k.ctx, "the container to start again", func() bool {
		obj, ok := k.Server().Get("pods", "default", pod)
		return ok && slices.ContainsFunc(obj.(*corev1.Pod).Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.RestartCount == 1 && c.State.Running != nil
		})
	}))
}

const patternBytes = 1 << 20

// pattern returns the bytes of a named pattern: random ones, so that no part equals another.
func pattern(word string) []byte {
	data := make([]byte, patternBytes)
	source := rand.NewChaCha8(sha256.Sum256([]byte(word)))
	source.Read(data)
	return data
}

// write writes a pattern to a volume through a pod, replacing its content.
func (k kept) write(pod, claim, word string) {
	k.Helper()
	if k.fsType != "" {
		testcheck.NoError(k, k.WriteFile("default", pod, claim, "pattern", pattern(word)))
		return
	}
	device := k.device(pod, claim)
	defer device.Close()
	_, err := device.Write(pattern(word))
	testcheck.NoError(k, err)
	testcheck.NoError(k, device.Sync())
}

// device opens the device of a pod.
func (k kept) device(pod, claim string) *os.File {
	k.Helper()
	path, err := k.DevicePath("default", pod, claim)
	testcheck.NoError(k, err)
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	testcheck.NoError(k, err)
	return device
}

// finds fails the test if a volume does not contain a pattern, as read by the pod.
func (k kept) finds(pod, claim, word string) {
	k.Helper()
	var found []byte
	var err error
	if k.fsType != "" {
		found, err = k.ReadFile("default", pod, claim, "pattern")
	} else {
		device := k.device(pod, claim)
		defer device.Close()
		found = make([]byte, patternBytes)
		_, err = io.ReadFull(device, found)
	}
	testcheck.NoError(k, err)
	if got, want := sha256.Sum256(found), sha256.Sum256(pattern(word)); got != want {
		k.Errorf("pod %s reads %x from claim %s, want %x: the %s pattern", pod, got[:8], claim, want[:8], word)
	}
}

// grow requests more capacity, and waits until the pod with the volume has it. An ext4 file system
// that cannot be expanded in use is expanded when it is staged the next time.
func (k kept) grow(pod, claim string) {
	k.Helper()
	before := k.blocks(pod, claim)
	size := mebibytes(k.grownMiB())
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size.String())
	_, err := k.Client().CoreV1().PersistentVolumeClaims("default").Patch(k.ctx, claim,
		types.MergePatchType, patch, metav1.PatchOptions{})
	testcheck.NoError(k, err)
	if k.fsType == "ext4" && !mayGrowExt4(k.T) {
		testcheck.NoError(k, k.Wait(k.ctx, "the volume to grow",
			func() bool { return k.capacity("persistentvolumes", "", k.volumeOf(claim).Name) >= k.grownMiB() }))
		return
	}
	testcheck.NoError(k, k.Wait(k.ctx, "the claim to grow",
		func() bool { return k.capacity("persistentvolumeclaims", "default", claim) >= k.grownMiB() }))
	k.isGrown(pod, claim, before)
}

// capacity returns the capacity of a claim or a volume in MiB.
func (k kept) capacity(resource, namespace, name string) int64 {
	switch obj, _ := k.Server().Get(resource, namespace, name); of := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return of.Status.Capacity.Storage().Value() >> 20
	case *corev1.PersistentVolume:
		return of.Spec.Capacity.Storage().Value() >> 20
	}
	return 0
}

// blocks returns the size in bytes of a pod's volume: of the device, or for files.
func (k kept) blocks(pod, claim string) int64 {
	k.Helper()
	if k.fsType == "" {
		device := k.device(pod, claim)
		defer device.Close()
		size, err := device.Seek(0, io.SeekEnd)
		testcheck.NoError(k, err)
		return size
	}
	path, err := k.MountPath("default", pod, claim)
	testcheck.NoError(k, err)
	var stat syscall.Statfs_t
	testcheck.NoError(k, syscall.Statfs(path, &stat))
	return int64(stat.Blocks) * stat.Bsize
}

// isGrown fails the test if a pod's volume is not larger than before.
func (k kept) isGrown(pod, claim string, before int64) {
	k.Helper()
	if is, least := k.blocks(pod, claim), before+(k.grownMiB()-k.sizeMiB)<<20*9/10; is < least {
		k.Errorf("pod %s has %d bytes of its volume, want %d: there were %d", pod, is, least, before)
	}
}

// mayGrowExt4 reports whether this process may expand a mounted ext4, which requires
// CAP_SYS_RESOURCE.
func mayGrowExt4(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var caps uint64
	for line := range strings.Lines(string(status)) {
		if text, is := strings.CutPrefix(line, "CapEff:"); is {
			if _, err := fmt.Sscanf(strings.TrimSpace(text), "%x", &caps); err != nil {
				t.Fatal(err)
			}
		}
	}
	const sysResource = 24
	return caps>>sysResource&1 == 1
}

// snapshot takes a snapshot of a volume in use through the driver; for a device, while the pod does
// not run.
func (k kept) snapshot(pod, claim string) string {
	k.Helper()
	if k.fsType == "" {
		k.ends(pod)
		defer k.pod(k.home, pod, claim)
		testcheck.NoError(k, k.Wait(k.ctx, "the device to be detached",
			func() bool { return len(k.Server().List("volumeattachments")) == 0 }))
	}
	handle := k.volumeOf(claim).Spec.CSI.VolumeHandle
	taken, err := k.Controller().CreateSnapshot(k.ctx,
		&csispec.CreateSnapshotRequest{SourceVolumeId: handle, Name: "snapshot"})
	testcheck.NoError(k, err)
	if !taken.GetSnapshot().GetReadyToUse() {
		k.Fatal("the snapshot is not ready")
	}
	return taken.GetSnapshot().GetSnapshotId()
}

func (k kept) forget(snapshot string) {
	k.Helper()
	_, err := k.Controller().DeleteSnapshot(k.ctx, &csispec.DeleteSnapshotRequest{SnapshotId: snapshot})
	testcheck.NoError(k, err)
}

// restored creates a volume from a snapshot through the driver, as an administrator does for a
// claim, and returns the claim.
func (k kept) restored(name, snapshot string) *corev1.PersistentVolumeClaim {
	k.Helper()
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Block{Block: &csispec.VolumeCapability_BlockVolume{}},
	}
	if k.fsType != "" {
		capability.AccessType = &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{FsType: k.fsType}}
	}
	made, err := k.Controller().CreateVolume(k.ctx, &csispec.CreateVolumeRequest{
		Name: name, CapacityRange: &csispec.CapacityRange{RequiredBytes: k.grownMiB() << 20}, VolumeCapabilities: []*csispec.VolumeCapability{capability},
		VolumeContentSource: &csispec.VolumeContentSource{Type: &csispec.VolumeContentSource_Snapshot{
			Snapshot: &csispec.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
		}},
	})
	testcheck.NoError(k, err)
	claim := k.claim(name, nil)
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = mebibytes(k.grownMiB())
	claim.Spec.VolumeName = name
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: mebibytes(k.grownMiB())},
			AccessModes: claim.Spec.AccessModes,
			VolumeMode:  claim.Spec.VolumeMode, StorageClassName: dataClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: k.DriverName(), VolumeHandle: made.GetVolume().GetVolumeId(), FSType: k.fsType,
			}},
			NodeAffinity: k.volumeOf("data").Spec.NodeAffinity,
		},
	}
	_, err = k.Client().CoreV1().PersistentVolumes().Create(k.ctx, volume, metav1.CreateOptions{})
	testcheck.NoError(k, err)
	return claim
}
