package volumemanager_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestMountFollowsReportAndAttachment is I35, in both orders.
func TestMountFollowsReportAndAttachment(t *testing.T) {
	t.Parallel()
	t.Run("attached first", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.disk("disk-1")
		w.attach("disk-1")
		w.Run()
		w.add("a", "disk-1")
		w.upTo("node status: api patch/status")
		w.run0Without("node status")
		w.calls()
		w.move("node status")
		w.Run()
		w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a")
		w.quiet()
	})
	t.Run("the report fails", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.disk("disk-1")
		w.attach("disk-1")
		w.Run()
		w.failing = []reportFault{{err: errFinal}, {err: errFinal}, {err: errFinal, after: true}}
		w.add("a", "disk-1")
		w.pass(14 * ms)
		w.inUse()
		w.Run()
		w.calls("15ms MountDevice disk-1",
			"15ms SetUp disk-1 a") // after 5 ms and 10 ms of back-off; then the Node is seen
		w.quiet()
	})
}

// run0Without runs all tasks of the kubelet but one until time must pass.
func (w *world) run0Without(task string) {
	w.Helper()
	w.moveAll("cache nodes", "volume populator", "volume reconciler", "events", "volume_mount",
		"volume_unmount", "unmount_device")
	if !w.about(task) {
		w.Fatalf("%s is not suspended", task)
	}
}

// TestStaleNodeDoesNotAllowAMount makes the controller begin a detach while the kubelet still sees
// a Node that lists the volume.
func TestStaleNodeDoesNotAllowAMount(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	stale := w.node()
	w.remove("a")
	w.Run() // the Node the kubelet sees still lists disk-1
	w.backend.calls = nil
	w.list() // the controller takes it off the list, and detaches: the kubelet has not seen that
	w.backend.detach("disk-1")
	testcheck.Equal(w, "the kubelet has news to see", true, w.about("cache nodes"))
	w.add("b", "disk-1")
	w.moveAll("volume populator", "volume reconciler", "node status", "volume_mount")
	testcheck.Equal(w, "the kubelet has news to see", true, w.about("cache nodes"))
	w.inUse("disk-1")
	w.calls()
	w.pod("b", false, false)
	w.Run()
	before := len(w.happened())
	w.manager.NodeUpdated(stale) // from a stale watch
	w.kubelet.Wake()
	w.Run()
	w.calls()
	testcheck.Equal(w, "reports of what was reported", before, len(w.happened()))
	testcheck.Equal(w, "violations", nil, w.backend.wrong)

	w.attach("disk-1")
	w.Run()
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 b")
	w.quiet()
}

// TestVolumeIsWantedAgainDuringTheReportWithoutIt adds a pod that wants it between the report's
// beginning and its end.
func TestVolumeIsWantedAgainDuringTheReportWithoutIt(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.remove("a")
	w.upTo("node status: api patch/status")
	w.add("b", "disk-1")
	w.run0Without("node status")
	w.calls("0s TearDown disk-1 a", "0s UnmountDevice disk-1")
	w.inUse("disk-1") // unchanged
	before := len(w.happened())
	w.move("node status")
	w.inUse()
	w.moveAll("cache nodes", "volume populator", "volume reconciler", "volume_mount")
	w.calls()
	w.Run()
	testcheck.Equal(w, "what happened", []string{
		"reports disk-1 no longer in use on node-1",
		"reports disk-1 in use on node-1",
		"MountDevice disk-1", "SetUp disk-1 b",
	}, w.happened()[before:])
	w.quiet()
}

// TestVolumeIsWantedAgainDuringAReportWithIt may be mounted immediately: no report has removed it
// meanwhile.
func TestVolumeIsWantedAgainDuringAReportWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	w.Run()
	w.add("a", "disk-1")
	w.upTo("node status: api patch/status")
	w.remove("a")
	w.moveAll("volume reconciler")
	w.add("b", "disk-1")
	w.run0Without("node status")
	w.calls()
	w.Run()
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 b")
	w.quiet()
}

// TestPodIsRemovedBeforeItsVolumeIsAttached leaves nothing in volumesInUse: the controller would
// never detach it.
func TestPodIsRemovedBeforeItsVolumeIsAttached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.add("a", "disk-1")
	w.Run()
	w.inUse("disk-1")
	w.remove("a")
	w.Run()
	w.inUse()
	w.calls()
	w.quiet()
}

// TestNodeCreatedAgain deletes and recreates the Node while a volume is mounted: the volumes in use
// are reported again (I36).
func TestNodeCreatedAgain(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.disk("disk-2")
	w.add("b", "disk-2")
	w.Run()
	w.inUse("disk-1", "disk-2")
	w.NoError(w.User.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}))
	w.createNode()
	w.backend.wrong = nil // unavoidable
	w.list("disk-1", "disk-2")
	w.backend.attached["disk-2"] = true
	w.backend.wrong = nil
	w.moveAll("cache nodes", "volume reconciler", "volume_mount")
	w.calls() // a new volume waits for the report
	w.Run()
	w.inUse("disk-1", "disk-2")
	w.calls("0s MountDevice disk-2", "0s SetUp disk-2 b")
	w.quiet()
}

func TestNodeWithoutARevisionPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	w.manager.NodeUpdated(&corev1.Node{})
}
