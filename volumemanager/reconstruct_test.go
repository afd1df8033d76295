package volumemanager_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// known marks the kubelet's pods as known.
func (w *world) known() {
	w.Helper()
	w.NoError(w.manager.MarkAllPodsAdded())
	w.kubelet.Wake()
}

// hasDir reports whether the directory of a pod's volume exists.
func (w *world) hasDir(want bool, pod types.UID, volume string) {
	w.Helper()
	there, err := w.backend.disk.Exists(podVolumeDir(pod, volume))
	w.NoError(err)
	testcheck.Equal(w, "directory of "+volume+" for "+string(pod), want, there)
}

// TestReconstructVolumes has upstream's rows of that name.
func TestReconstructVolumes(t *testing.T) {
	t.Parallel()
	t.Run("when two pods are using same volume and both are deleted", func(t *testing.T) {
		t.Parallel()
		w := mounted(t)
		w.add("b", "disk-1")
		w.Run()
		w.restart()
		w.Run()
		testcheck.Equal(w, "found", []types.UID{"a", "b"}, w.manager.ReconstructedPods())
		w.pod("a", false, true)
		w.pod("b", false, true)
		w.calls()
		w.inUse("disk-1")
		w.known()
		w.Run()
		w.calls("0s TearDown disk-1 a", "0s TearDown disk-1 b", "0s UnmountDevice disk-1")
		w.inUse()
		testcheck.Equal(w, "found", 0, len(w.manager.ReconstructedPods()))
		w.quiet()
	})
	t.Run("when reconstruction fails for a volume, volumes should be cleaned up", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.Run()
		w.NoError(w.backend.disk.MkdirAll(diskRoot + "/pods/a/volumes/example.com~missing/disk-1"))
		w.restart()
		w.known()
		w.Run()
		w.calls() // unknown plugin: unchanged
		w.quiet()
		left, err := w.backend.disk.ReadDir(diskRoot + "/pods/a/volumes/example.com~missing")
		w.NoError(err)
		testcheck.Equal(w, "left", []string{"disk-1"}, left)
	})
}

// TestCleanOrphanVolumes has upstream's rows of that name.
func TestCleanOrphanVolumes(t *testing.T) {
	t.Parallel()
	t.Run("volume is in DSW and is not cleaned", func(t *testing.T) {
		t.Parallel()
		w := mounted(t)
		w.backend.unreadable["disk-1"] = true
		w.restart()
		w.add("a", "disk-1")
		w.known()
		w.Run()
		w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a") // both exist, previously unknown
		w.pod("a", true, true)
		w.remove("a")
		w.Run()
		w.calls("0s TearDown disk-1 a", "0s UnmountDevice disk-1")
		w.quiet()
	})
	t.Run("volume is not in DSW and is cleaned", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.Run()
		w.backend.unreadable["disk-1"] = true
		w.NoError(w.backend.disk.MkdirAll(podVolumeDir("a", "disk-1")))
		w.restart()
		w.Run()
		w.hasDir(true, "a", "disk-1")
		w.known()
		w.Run()
		w.calls("0s TearDown disk-1 a")
		w.hasDir(false, "a", "disk-1")
		w.quiet()
	})
	t.Run("a pod that wanted it is removed before it is mounted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.Run()
		w.disk("disk-1")
		w.backend.unreadable["disk-1"] = true
		w.NoError(w.backend.disk.MkdirAll(podVolumeDir("a", "disk-1")))
		w.restart()
		w.add("a", "disk-1") // not attached
		w.known()
		w.Run()
		w.calls()
		w.remove("a")
		w.Run()
		w.calls("0s TearDown disk-1 a")
		w.hasDir(false, "a", "disk-1")
	})
	t.Run("an unknown device", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.Run()
		w.backend.devices["disk-1"], w.backend.unreadable["disk-1"] = true, true
		w.restart()
		w.known()
		w.Run()
		w.calls("0s UnmountDevice disk-1")
		w.quiet()
	})
}

// TestReconstructVolumesMount has upstream's rows of that name for volumes with a file system.
func TestReconstructVolumesMount(t *testing.T) {
	t.Parallel()
	t.Run("reconstructed volume is mounted", func(t *testing.T) {
		t.Parallel()
		w := mounted(t)
		w.restart()
		w.add("a", "disk-1")
		w.known()
		w.Run()
		w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a")
		w.pod("a", true, true)
		testcheck.Equal(w, "found", 0, len(w.manager.ReconstructedPods()))
		w.quiet()
	})
	t.Run("reconstructed volume fails to mount", func(t *testing.T) {
		t.Parallel()
		w := mounted(t)
		w.restart()
		w.backend.faults = []fault{{call: "SetUp disk-1 a", err: errFinal}}
		w.add("a", "disk-1")
		w.known()
		w.Until("SetUp to fail", func() bool { return len(w.backend.calls) == 2 })
		w.pod("a", false, true) // unchanged
		w.Run()
		w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a: broken", "500ms SetUp disk-1 a")
		w.pod("a", true, true)
		w.quiet()
	})
	t.Run("the device of a reconstructed volume fails to mount", func(t *testing.T) {
		t.Parallel()
		w := mounted(t)
		w.restart()
		w.backend.faults = []fault{{call: "MountDevice disk-1", err: errTransient}}
		w.add("a", "disk-1")
		w.known()
		w.Until("MountDevice to fail", func() bool { return len(w.backend.calls) == 1 })
		w.remove("a")
		w.Run()
		w.calls("0s MountDevice disk-1: not yet", "0s TearDown disk-1 a", "0s UnmountDevice disk-1")
		w.quiet()
	})
}

// TestStagedVolumeIsReconstructedWithoutItsPod crashes the kubelet between the two unmounts of a
// volume (L6). Upstream leaks it.
func TestStagedVolumeIsReconstructedWithoutItsPod(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.remove("a")
	w.upTo("unmount_device")
	w.hasDir(false, "a", "disk-1")
	w.restart()
	w.Run()
	w.calls()
	w.inUse("disk-1")
	w.known()
	w.Run()
	w.calls("0s UnmountDevice disk-1")
	w.inUse()
	w.quiet()
}

// TestNothingIsUnmountedBeforeTheNodeIsSeen: unmounting a reconstructed volume requires its state
// in the Node.
func TestNothingIsUnmountedBeforeTheNodeIsSeen(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.restart()
	w.known()
	w.moveAll("volume reconciler", "node status", "volume populator")
	w.calls()
	w.inUse("disk-1")
	w.Run()
	w.calls("0s TearDown disk-1 a", "0s UnmountDevice disk-1")
	w.quiet()
}

// TestReconstructedVolumeIsInUseAlthoughNotListed: the attach/detach controller removes a volume
// from the Node's list before it checks whether it is in use (I36). Upstream does not report it.
func TestReconstructedVolumeIsInUseAlthoughNotListed(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.list()
	w.restart()
	w.backend.faults = []fault{{call: "TearDown disk-1 a", err: errUncertain}}
	w.known()
	w.Until("TearDown to fail", func() bool { return len(w.backend.calls) == 1 })
	w.inUse("disk-1")
	w.Run()
	w.inUse()
	w.quiet()
}

// TestPodKeepsUnknownVolumes until it is removed; then they are unmounted (I26, I27).
func TestPodKeepsUnknownVolumes(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.restart()
	w.add("a", "disk-1", "no-such")
	w.backend.unreadable["no-such"] = true
	w.known()
	w.pass(time.Second)
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a")
	w.remove("a")
	w.Run()
	w.calls("1s TearDown disk-1 a", "1s UnmountDevice disk-1")
	w.quiet()
}

// TestUnprocessedPodKeepsItsVolumes: its mounts may be the unknown ones (#120150).
func TestUnprocessedPodKeepsItsVolumes(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.unbind("disk-1")
	w.restart()
	w.add("a", "disk-1")
	w.known()
	w.pass(time.Second)
	w.calls()
	w.pod("a", false, true)
	w.inUse("disk-1")
	w.remove("a")
	w.Run()
	w.calls("1s TearDown disk-1 a", "1s UnmountDevice disk-1")
	w.inUse()
	w.quiet()
}

// TestReconstructedVolumeIsUnmountedAfterItsSetUpFailed has upstream's name
// TestReconstructedVolumeShouldUnmountSucceedAfterSetupFailed.
func TestReconstructedVolumeIsUnmountedAfterItsSetUpFailed(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.restart()
	w.backend.faults = []fault{{call: "SetUp disk-1 a", err: errFinal}}
	w.add("a", "disk-1")
	w.known()
	w.Until("SetUp to fail", func() bool { return len(w.backend.calls) == 2 })
	w.remove("a")
	w.Run()
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a: broken", "0s TearDown disk-1 a", "0s UnmountDevice disk-1")
	w.inUse()
	w.quiet()
}
