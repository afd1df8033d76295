package attachdetach_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

const disk1 = corev1.UniqueVolumeName(diskName + "/disk-1")

// oneNode returns a world with pod a, which uses disk-1, on node-1.
func oneNode(t *testing.T, configure ...func(*attachdetach.Config)) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.start(configure...)
	w.pod("a", "node-1", "disk-1")
	w.Run()
	w.quiet()
	return w
}

func (w *world) kubelet(node types.NodeName) *kubelet { return w.kubelets[node] }

func TestAttachWhenAPodIsScheduled(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	testcheck.Equal(w, "calls", []string{"0s Attach disk-1 node-1"}, w.backend.calls)
	testcheck.Equal(w, "volumes attached", []string{"example.com/disk/disk-1=/dev/disk-1"}, w.attachedIn("node-1"))
	testcheck.Equal(w, "mounts", []string{"disk-1"}, w.kubelet("node-1").mounts)
	testcheck.Equal(w, "events",
		[]string{`x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume "disk-1" `}, w.events())
}

func TestIdleControllerWritesNothing(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	before := w.Host.Log().Len()
	w.status("node-1", "conditions", []map[string]any{{"type": "Ready", "status": "True", "message": "heartbeat"}})
	w.Run()
	for _, r := range w.Host.Log().Records()[before:] {
		if r.Kind != trace.KindDeliver && strings.HasPrefix(r.Task, "attachdetach") {
			t.Errorf("after a heartbeat: %s", r)
		}
	}
}

func TestDetachAfterUnmountAndStatusUpdate(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	w.kubelet("node-1").dead = true
	w.deletePod("a")
	w.Run()
	want := []attachdetach.PendingVolume{{Volume: disk1, Node: "node-1", Detach: attachdetach.DetachAfterUnmount}}
	if diff := cmp.Diff(want, w.controller.Pending()); diff != "" {
		t.Errorf("while it is mounted on a ready node, pending (-want +got):\n%s", diff)
	}
	testcheck.Equal(w, "volumes attached", []string{"example.com/disk/disk-1=/dev/disk-1"}, w.attachedIn("node-1"))

	w.kubelet("node-1").revive()
	w.Run()
	w.quiet()
	testcheck.Equal(w, "attached", nil, w.attachedIn("node-1"))
	testcheck.Equal(w, "calls", []string{"0s Attach disk-1 node-1", "6m0s Detach disk-1 node-1"}, w.backend.calls)
	testcheck.Equal(w, "actions of the controller", []string{
		"api patch/status nodes/node-1", "api get nodes/node-1", "driver Detach disk-1 node-1",
	}, lastActions(w, 3))
}

// lastActions returns the controller's last requests and calls, without the returns.
func lastActions(w *world, n int) []string {
	var actions []string
	for _, r := range w.Host.Log().Records() {
		if strings.HasPrefix(r.Task, "attachdetach") && (r.Kind == trace.KindAPI || r.Kind == trace.KindDriver) &&
			r.Verb != "return" {
			actions = append(actions, r.Action.String())
		}
	}
	return actions[max(0, len(actions)-n):]
}

func TestMultiAttachIsReportedOnce(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	w.node("node-2")
	w.pod("b", "node-2", "disk-1")
	w.Run()
	testcheck.Equal(w, "events", []string{
		`x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume "disk-1" `,
		`x1 Warning FailedAttachVolume b: Multi-Attach error for volume "disk-1" Volume is already used by pod(s) a`,
	}, w.events())
	want := []attachdetach.PendingVolume{{Volume: disk1, Node: "node-2", Attach: attachdetach.AttachAfterOthers}}
	if diff := cmp.Diff(want, w.controller.Pending()); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	pictures := "desired example.com/disk/disk-1 on node-1 by default/a\n" +
		"desired example.com/disk/disk-1 on node-2 by default/b\n" +
		"actual example.com/disk/disk-1 on node-1: Attached, reported\n"
	if diff := cmp.Diff(pictures, w.controller.String()); diff != "" {
		t.Errorf("states of world (-want +got):\n%s", diff)
	}
	w.deletePod("a")
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls",
		[]string{"0s Attach disk-1 node-1", "0s Detach disk-1 node-1", "0s Attach disk-1 node-2"}, w.backend.calls)
}

func TestSharedVolumeIsAttachedToTwoNodesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.node("node-2")
	w.disk("disk-1", rwx)
	w.pod("a", "node-1", "disk-1")
	w.pod("b", "node-2", "disk-1")
	w.start()
	w.Run()
	w.quiet()
	var calls []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindDriver {
			calls = append(calls, r.Action.String())
		}
	}
	testcheck.Equal(w, "calls and returns", []string{
		"driver Attach disk-1 node-1", "driver Attach disk-1 node-2",
		"driver return Attach disk-1 node-1", "driver return Attach disk-1 node-2",
	}, calls)
}

func TestFailedAttachIsRetriedAfterItsBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.pod("a", "node-1", "disk-1")
	broken := fault{call: "Attach disk-1 node-1", err: errBroken}
	w.backend.faults = []fault{broken, broken, broken}
	w.start()
	w.Until("the first failure is recorded", func() bool { return len(w.events()) > 0 })
	if got := w.controller.Actual().State(disk1, "node-1"); got != attachdetach.Uncertain {
		t.Errorf("after a failed attach: %s, want %s", got, attachdetach.Uncertain)
	}
	testcheck.Equal(w, "volumes attached", nil, w.attachedIn("node-1"))
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1: broken", "500ms Attach disk-1 node-1: broken",
		"1.5s Attach disk-1 node-1: broken", "3.5s Attach disk-1 node-1",
	}, w.backend.calls)
	testcheck.Equal(w, "events", []string{
		`x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume "disk-1" `,
		`x3 Warning FailedAttachVolume a: AttachVolume.Attach failed for volume "disk-1" : broken`,
	}, w.events())
}

// Upstream treats the new attachment as in use until the next update of the node's status
// (kubernetes issue 117042).
func TestFailedAttachOfADeletedPodIsDetached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.start()
	w.kubelet("node-1").dead = true
	w.backend.faults = []fault{{call: "Attach disk-1 node-1", err: errBroken, after: true}}
	w.pod("a", "node-1", "disk-1")
	w.Until("the failure is recorded", func() bool { return len(w.events()) > 0 })
	w.deletePod("a")
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{"0s Attach disk-1 node-1: broken", "0s Detach disk-1 node-1"}, w.backend.calls)
}

func TestFailedDetachIsUncertainAndNotReportedAgain(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	w.node("node-2")
	broken := fault{call: "Detach disk-1 node-1", err: errBroken}
	w.backend.faults = []fault{broken, broken}
	w.deletePod("a")
	w.pod("b", "node-2", "disk-1")
	w.Until("the first detach failed", func() bool {
		return w.controller.Actual().State(disk1, "node-1") == attachdetach.Uncertain
	})
	testcheck.Equal(w, "volumes attached", nil, w.attachedIn("node-1"))
	w.Run()
	w.quiet()
	// Upstream attaches the volume to node-2 while it is uncertain on node-1 (I15, I16b).
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1", "0s Detach disk-1 node-1: broken", "500ms Detach disk-1 node-1: broken",
		"1.5s Detach disk-1 node-1", "1.5s Attach disk-1 node-2",
	}, w.backend.calls)
}

func TestDanglingVolumeIsDetachedFromItsNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.node("node-2")
	w.disk("disk-1", rwo)
	w.backend.attached["disk-1"] = map[types.NodeName]bool{"node-2": true}
	w.backend.faults = []fault{{
		call: "Attach disk-1 node-1",
		err:  &plugins.DanglingError{CurrentNode: "node-2", Err: errBroken},
	}}
	w.pod("a", "node-1", "disk-1")
	w.start()
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1: volume is attached to node node-2: broken", "0s Detach disk-1 node-2",
		"500ms Attach disk-1 node-1",
	}, w.backend.calls)
}

// The status that is read applies to all volumes of the node; an equal status in the cache later is
// no change.
func TestUseReadFromTheNodeWakesItsOtherVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.disk("disk-2", rwo)
	w.start()
	w.pod("a", "node-1", "disk-1", "disk-2")
	w.Run()
	w.kubelet("node-1").dead = true
	w.deletePod("a")
	w.Run()
	w.kubelet("node-1").mounts = nil
	w.afterGet = func(node *corev1.Node) { node.Status.VolumesInUse = nil }
	w.status("node-1", "volumesInUse", []string{diskName + "/disk-2"})
	w.Until("disk-2 is detached", func() bool { return len(w.backend.where("disk-2")) == 0 })
	w.status("node-1", "volumesInUse", nil)
	w.Run()
	w.quiet()
}
