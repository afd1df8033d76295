package attachdetach_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
)

// A node with a repeatedly failing detach shares its back-off with the others, which still have
// their turn.
func TestUncertainNodesTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.node("node-2")
	w.disk("disk-1", rwo)
	w.attachment("disk-1", "node-1")
	w.attachment("disk-1", "node-2")
	broken := fault{call: "Detach disk-1 node-1", err: errBroken}
	w.backend.faults = []fault{broken, broken}
	w.start()
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Detach disk-1 node-1: broken", "500ms Detach disk-1 node-2",
		"500ms Detach disk-1 node-1: broken", "1s Detach disk-1 node-1",
	}, w.backend.calls)
}

func TestVolumeAttachmentIdentifiesAReportedVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.kubelet("node-1").dead = true
	w.disk("disk-1", rwo)
	w.attachment("disk-1", "node-1")
	w.status("node-1", "volumesAttached", []corev1.AttachedVolume{{Name: disk1}})
	w.status("node-1", "volumesInUse", []string{string(disk1)})
	w.start()
	w.Run()
	a := w.controller.Actual().Attachments(disk1)[0]
	if a.State != attachdetach.Attached || a.Spec == nil {
		t.Errorf("%s, spec %v", a, a.Spec)
	}
}
