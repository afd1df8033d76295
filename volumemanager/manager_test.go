package volumemanager_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// mounted returns a world with disk-1 mounted for pod a.
func mounted(t *testing.T, configure ...func(*backend)) *world {
	t.Helper()
	w := newWorld(t, nil, configure...)
	w.disk("disk-1")
	w.attach("disk-1")
	w.add("a", "disk-1")
	w.Run()
	w.quiet()
	w.pod("a", true, true)
	w.backend.calls = nil
	return w
}

func TestLifecycleOfAVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.Run()
	w.add("a", "disk-1")
	w.Run()
	w.calls() // not attached yet
	w.inUse("disk-1")
	w.pod("a", false, false)
	testcheck.Equal(w, "quiet", false, w.manager.Quiescent())

	w.attach("disk-1")
	w.Run()
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a")
	w.pod("a", true, true)
	path, ok := w.manager.Path("a", "disk-1")
	testcheck.Equal(w, "path", []any{"/pods/a/disk-1", true}, []any{path, ok})
	w.quiet()

	w.remove("a")
	w.pod("a", false, true)
	w.Run()
	w.calls("0s TearDown disk-1 a", "0s UnmountDevice disk-1")
	w.inUse()
	w.pod("a", false, false)
	w.quiet()
	testcheck.Equal(w, "what happened", []string{
		"reports disk-1 in use on node-1",
		"MountDevice disk-1", "SetUp disk-1 a", "TearDown disk-1 a", "UnmountDevice disk-1",
		"reports disk-1 no longer in use on node-1",
	}, w.happened()[1:]) // the first report is empty
	testcheck.Equal(w, "pods that changed", []types.UID{"a", "a", "a"}, w.changed) // processed, mounted, unmounted
	testcheck.Equal(w, "events", nil, w.events())
}

func TestVolumesWithFewerCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                string
		attachable, stages  bool
		calls, undone       []string
		inUse               []string
		attachedBeforeMount bool
	}{
		{
			"attached only", true, false,
			[]string{"0s SetUp disk-1 a"},
			[]string{"0s TearDown disk-1 a"},
			[]string{"disk-1"},
			true,
		},
		{
			"staged only", false, true,
			[]string{"0s MountDevice disk-1", "0s SetUp disk-1 a"},
			[]string{"0s TearDown disk-1 a", "0s UnmountDevice disk-1"},
			nil, false,
		},
		{"neither", false, false, []string{"0s SetUp disk-1 a"}, []string{"0s TearDown disk-1 a"}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, func(b *backend) { b.attachable, b.stages = tt.attachable, tt.stages })
			w.disk("disk-1")
			w.add("a", "disk-1")
			w.Run()
			w.pod("a", !tt.attachedBeforeMount, !tt.attachedBeforeMount)
			w.attach("disk-1")
			w.Run()
			w.pod("a", true, true)
			w.calls(tt.calls...)
			w.inUse(tt.inUse...)
			w.remove("a")
			w.Run()
			w.calls(tt.undone...)
			w.inUse()
			w.quiet()
		})
	}
}

// TestTwoPodsShareAVolume is I17 on one node: one stage, and unstage after both pods are removed.
func TestTwoPodsShareAVolume(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.add("b", "disk-1")
	w.Run()
	w.calls("0s SetUp disk-1 b")
	w.pod("b", true, true)
	w.remove("a")
	w.Run()
	w.calls("0s TearDown disk-1 a")
	w.pod("a", false, false)
	w.pod("b", true, true)
	w.inUse("disk-1")
	w.remove("b")
	w.Run()
	w.calls("0s TearDown disk-1 b", "0s UnmountDevice disk-1")
	w.inUse()
	w.quiet()
}

// TestSameClaimTwiceInAPod mounts it once, and unmounts it once.
func TestSameClaimTwiceInAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	pod := newPod("a", "disk-1")
	again := *pod.Spec.Volumes[0].DeepCopy()
	again.Name = "again"
	pod.Spec.Volumes = append(pod.Spec.Volumes, again)
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "again", MountPath: "/again"})
	w.manager.AddPod(pod)
	w.Run()
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a")
	w.pod("a", true, true)
	for _, volume := range []string{"disk-1", "again"} {
		path, ok := w.manager.Path("a", volume)
		testcheck.Equal(w, "path of "+volume, []any{"/pods/a/disk-1", true}, []any{path, ok})
	}
	w.remove("a")
	w.Run()
	w.calls("0s TearDown disk-1 a", "0s UnmountDevice disk-1")
	w.inUse()
	w.quiet()
}

func TestPodOfSeveralVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.disk("disk-2")
	w.attach("disk-1")
	pod := newPod("a", "disk-1", "disk-2", "unused")
	pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[:2] // no container uses the third
	w.manager.AddPod(pod)
	w.Run()
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a")
	w.pod("a", false, true)
	for volume, want := range map[string]bool{"disk-1": true, "disk-2": false, "unused": false} {
		_, ok := w.manager.Path("a", volume)
		testcheck.Equal(w, "has a path: "+volume, want, ok)
	}
	w.attach("disk-1", "disk-2")
	w.Run()
	w.calls("0s MountDevice disk-2", "0s SetUp disk-2 a")
	w.pod("a", true, true)
	w.remove("a")
	w.Run()
	testcheck.Equal(w, "mounts", nil, w.backend.mounts())
	w.quiet()
}

func TestPodsWithoutVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.pod("a", false, false) // not added
	w.add("a")
	w.pod("a", true, false)
	w.Run()
	w.quiet()
	w.remove("a")
	w.remove("a")
	w.Run()
	w.pod("a", false, false)
	if _, ok := w.manager.Path("a", "disk-1"); ok {
		t.Error("a removed pod has a path")
	}
	w.quiet()
}

// TestPodIsRemovedDuringAMount removes the pod at every suspension of its mount.
func TestPodIsRemovedDuringAMount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		at         string
		hasVolumes bool // of the pod at its removal
		calls      []string
	}{
		{
			"volume_mount example.com/shelf/disk-1: driver MountDevice", false,
			[]string{"MountDevice disk-1", "UnmountDevice disk-1"},
		},
		{
			"volume_mount example.com/shelf/disk-1: driver return MountDevice", false,
			[]string{"MountDevice disk-1", "UnmountDevice disk-1"},
		},
		{
			"volume_mount example.com/shelf/disk-1: driver SetUp", true,
			[]string{"MountDevice disk-1", "SetUp disk-1 a", "TearDown disk-1 a", "UnmountDevice disk-1"},
		},
		{
			"volume_mount example.com/shelf/disk-1: driver return SetUp", true,
			[]string{"MountDevice disk-1", "SetUp disk-1 a", "TearDown disk-1 a", "UnmountDevice disk-1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.disk("disk-1")
			w.attach("disk-1")
			w.add("a", "disk-1")
			w.upTo(tt.at)
			w.remove("a")
			w.pod("a", false, tt.hasVolumes)
			w.moveAll("volume reconciler", "node status", "cache nodes")
			w.inUse("disk-1")
			w.Run()
			for i := range tt.calls {
				tt.calls[i] = "0s " + tt.calls[i]
			}
			w.calls(tt.calls...)
			w.pod("a", false, false)
			w.inUse()
			w.quiet()
		})
	}
}

// TestPodIsRemovedBeforeItsMountBegins checks that the operation does nothing then.
func TestPodIsRemovedBeforeItsMountBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	w.add("a", "disk-1")
	w.upTo("volume_mount")
	w.remove("a")
	w.Run()
	w.calls()
	w.inUse()
	w.quiet()
}

// TestPodIsAddedAgainBeforeItsUnmountBegins keeps the mount.
func TestPodIsAddedAgainBeforeItsUnmountBegins(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.remove("a")
	w.upTo("volume_unmount")
	w.add("a", "disk-1")
	w.moveAll("volume populator")
	w.pod("a", true, true)
	w.Run()
	w.calls()
	w.pod("a", true, true)
	w.quiet()
}
