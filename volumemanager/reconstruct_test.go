package volumemanager_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// known tells the kubelet that it knows its pods.
func (w *world) known() {
	w.Helper()
	w.NoError(w.manager.MarkAllPodsAdded())
	w.kubelet.Wake()
}

// hasDir checks whether there is a directory of a pod's volume.
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
		w.calls() // unknown plugin: it stays
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
		w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a") // both exist, and were unknown
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
	t.Run("a pod that wanted it goes before it had it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.Run()
		w.disk("disk-1")
		w.backend.unreadable["disk-1"] = true
		w.NoError(w.backend.disk.MkdirAll(podVolumeDir("a", "disk-1")))
		w.restart()
		w.add("a", "disk-1") // which is not attached
		w.known()
		w.Run()
		w.calls()
		w.remove("a")
		w.Run()
		w.calls("0s TearDown disk-1 a")
		w.hasDir(false, "a", "disk-1")
	})
	t.Run("a device of which nothing is known", func(t *testing.T) {
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

// TestReconstructVolumesMount has upstream's rows of that name that are about volumes with a file
// system.
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
		w.pod("a", false, true) // as it was
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

// TestStagedVolumeIsFoundWithoutItsPod: the kubelet is killed between the two unmounts of a volume
// (L6). Upstream loses it.
func TestStagedVolumeIsFoundWithoutItsPod(t *testing.T) {
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

// TestNothingIsTakenAwayBeforeTheNodeIsSeen: what the Node says of what was found is needed to take
// it away.
func TestNothingIsTakenAwayBeforeTheNodeIsSeen(t *testing.T) {
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

// TestFoundVolumeIsInUseThoughNotListed: the attach/detach controller takes a volume from the
// Node's list before it looks whether it is in use (I36). Upstream says that it is not.
func TestFoundVolumeIsInUseThoughNotListed(t *testing.T) {
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

// TestPodWhoseVolumesAreNotKnownKeepsThem: and when it goes, they are taken away (I26, I27).
func TestPodWhoseVolumesAreNotKnownKeepsThem(t *testing.T) {
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

// TestPodThatCannotBeProcessedKeepsItsVolumes: what it has here may be those that are not known
// (#120150).
func TestPodThatCannotBeProcessedKeepsItsVolumes(t *testing.T) {
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

// TestReconstructedVolumeGoesAfterItsSetUpFailed has upstream's name
// TestReconstructedVolumeShouldUnmountSucceedAfterSetupFailed.
func TestReconstructedVolumeGoesAfterItsSetUpFailed(t *testing.T) {
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
