package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
)

// classify applies a claim of a class, and waits until its volume has it.
func (u users) classify(class string) {
	u.Helper()
	testcheck.NoError(u, u.Apply(u.ctx, classifiedClaim(class)))
	testcheck.NoError(u, u.WaitFor(u.ctx, "persistentvolumeclaims", "default", "data",
		"jsonpath={.status.currentVolumeAttributesClassName}="+class))
	if got := u.volumeOf("data").Spec.VolumeAttributesClassName; got == nil || *got != class {
		u.Errorf("the class of the volume is %v, want %s", got, class)
	}
}

// source returns the device of a pod's volume.
func (u users) source(pod string) string {
	u.Helper()
	path, err := u.MountPath("default", pod, "data")
	testcheck.NoError(u, err)
	out, err := exec.CommandContext(u.ctx, "findmnt", "-n", "-o", "SOURCE,OPTIONS", path).CombinedOutput()
	testcheck.NoError(u, err)
	return strings.TrimSpace(string(out))
}

// readAhead returns the read-ahead in KiB of the device of a pod's volume.
func (u users) readAhead(pod string) string {
	u.Helper()
	device, _, _ := strings.Cut(u.source(pod), " ")
	text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "queue/read_ahead_kb"))
	testcheck.NoError(u, err)
	return strings.TrimSpace(string(text))
}

// TestClassOfALoopVolumeIsChanged changes the read-ahead of a device while a pod uses it. The setting
// survives a new attachment on another node, and a restart of the node.
func TestClassOfALoopVolumeIsChanged(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	u := newUsers(t, cluster.Config{Devices: cluster.Loop})
	testcheck.NoError(u, u.Apply(u.ctx, attributesClass(loop.DriverName, "slow", "readAheadKiB", "64")+"---"+
		attributesClass(loop.DriverName, "fast", "readAheadKiB", "2048")+"---"+
		attributesClass(loop.DriverName, "wrong", "readAheadKiB", "lots")))
	want := func(pod, kibibytes string) {
		t.Helper()
		if got := u.readAhead(pod); got != kibibytes {
			t.Errorf("the device of pod %s reads %s KiB ahead, want %s", pod, got, kibibytes)
		}
	}
	u.classify("slow")
	u.runs("node-1", "web", "data")
	want("web", "64")
	u.classify("fast")
	want("web", "2048")

	testcheck.NoError(u, u.Apply(u.ctx, classifiedClaim("wrong")))
	testcheck.NoError(u, u.WaitFor(u.ctx, "persistentvolumeclaims", "default", "data",
		"jsonpath={.status.modifyVolumeStatus.status}=Infeasible"))
	want("web", "2048")
	u.classify("fast")

	u.ends("web")
	u.runs("node-2", "next", "data")
	want("next", "2048")
	u.ends("next")
	u.removes("data")
}

// TestClassOfALogicalVolumeIsChanged changes whether a file system discards, which takes effect when
// the volume is staged the next time.
func TestClassOfALogicalVolumeIsChanged(t *testing.T) {
	lvmOrSkip(t)
	u := newUsers(t, cluster.Config{Devices: cluster.LVM})
	testcheck.NoError(u, u.Apply(u.ctx, attributesClass(lvm.DriverName, "keeps", "discard", "false")+"---"+
		attributesClass(lvm.DriverName, "discards", "discard", "true")))
	want := func(pod string, discards bool) {
		t.Helper()
		if got := u.source(pod); strings.Contains(got, "discard") != discards {
			t.Errorf("pod %s has %s mounted, discard: want %v", pod, got, discards)
		}
	}
	testcheck.NoError(u, u.Apply(u.ctx, classifiedClaim("keeps")))
	u.runs("node-1", "web", "data")
	want("web", false)
	u.classify("discards")
	u.ends("web")
	testcheck.NoError(t, u.Wait(u.ctx, "the volume to be detached", func() bool { return len(u.Server().List("volumeattachments")) == 0 }))
	u.runs("node-1", "next", "data")
	want("next", true)
	u.ends("next")
	u.removes("data")
}

// TestClassOfAnArrayVolumeIsChanged changes the settings of a volume in a live cluster, to a class that
// is created after it was requested.
func TestClassOfAnArrayVolumeIsChanged(t *testing.T) {
	u := newUsers(t, cluster.Config{Devices: cluster.Array})
	driver := u.DeviceState().Driver()
	testcheck.NoError(u, u.Apply(u.ctx, attributesClass(driver, "slow", "iops", "100")))
	want := func(iops string) {
		t.Helper()
		volume, _ := u.DeviceState().Volume(u.volumeOf("data").Spec.CSI.VolumeHandle)
		if got := volume.Attributes["iops"]; got != iops {
			t.Errorf("iops %q, want %q", got, iops)
		}
	}
	u.classify("slow")
	want("100")
	u.runs("node-1", "web", "data")
	testcheck.NoError(u, u.Apply(u.ctx, classifiedClaim("fast")))
	testcheck.NoError(u, u.WaitFor(u.ctx, "persistentvolumeclaims", "default", "data",
		"jsonpath={.status.modifyVolumeStatus.status}=Pending"))
	want("100")
	testcheck.NoError(u, u.Apply(u.ctx, attributesClass(driver, "fast", "iops", "3000")))
	u.classify("fast")
	want("3000")
	claim, err := u.Client().CoreV1().PersistentVolumeClaims("default").Get(u.ctx, "data", metav1.GetOptions{})
	testcheck.NoError(u, err)
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimVolumeModifyingVolume || c.Type == corev1.PersistentVolumeClaimVolumeModifyVolumeError {
			t.Errorf("condition %v remains", c)
		}
	}
	u.ends("web")
	u.removes("data")
}
