package attachdetach_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
)

// TestRecovery starts the controller in worlds where another has been before.
func TestRecovery(t *testing.T) {
	t.Parallel()
	attachedTo := func(w *world, node string) {
		w.backend.attached["disk-1"] = map[types.NodeName]bool{types.NodeName(node): true}
	}
	reported := func(w *world, node string) {
		attachedTo(w, node)
		w.status(node, "volumesAttached", []corev1.AttachedVolume{{Name: disk1, DevicePath: "/dev/old"}})
	}
	inUse := func(w *world, node string) { w.status(node, "volumesInUse", []string{string(disk1)}) }
	for _, test := range []struct {
		name  string
		world func(w *world)
		want  []string // calls
		where []string // it ends up attached
	}{{
		name:  "reported, no pod",
		world: func(w *world) { reported(w, "node-1") },
		want:  []string{"0s Detach disk-1 node-1"},
	}, {
		name: "reported and in use, no pod",
		world: func(w *world) {
			w.kubelet("node-1").dead = true
			reported(w, "node-1")
			inUse(w, "node-1")
		},
		where: []string{"node-1"},
	}, {
		name: "reported, pod there",
		world: func(w *world) {
			reported(w, "node-1")
			w.pod("a", "node-1", "disk-1")
		},
		where: []string{"node-1"},
	}, {
		name: "reported, pod moved",
		world: func(w *world) {
			reported(w, "node-1")
			w.pod("a", "node-2", "disk-1")
		},
		want:  []string{"0s Detach disk-1 node-1", "0s Attach disk-1 node-2"},
		where: []string{"node-2"},
	}, {
		name: "not reported, VolumeAttachment and pod there",
		world: func(w *world) {
			w.attachment("disk-1", "node-1")
			w.pod("a", "node-1", "disk-1")
		},
		want:  []string{"0s Attach disk-1 node-1"},
		where: []string{"node-1"},
	}, {
		name: "VolumeAttachment, no pod",
		world: func(w *world) {
			attachedTo(w, "node-1")
			w.attachment("disk-1", "node-1")
		},
		want: []string{"0s Detach disk-1 node-1"},
	}, {
		name: "VolumeAttachment, pod moved",
		world: func(w *world) {
			attachedTo(w, "node-1")
			w.attachment("disk-1", "node-1")
			w.pod("a", "node-2", "disk-1")
		},
		want:  []string{"0s Detach disk-1 node-1", "0s Attach disk-1 node-2"},
		where: []string{"node-2"},
	}, {
		name: "VolumeAttachment of a node that is gone",
		world: func(w *world) {
			attachedTo(w, "node-9")
			w.attachment("disk-1", "node-9")
		},
		want: []string{"0s Detach disk-1 node-9"},
	}, {
		name:  "VolumeAttachment of a volume that is gone",
		world: func(w *world) { w.attachment("disk-9", "node-1") },
	}, {
		name:  "pod only",
		world: func(w *world) { w.pod("a", "node-1", "disk-1") },
		want:  []string{"0s Attach disk-1 node-1"},
		where: []string{"node-1"},
	}, {
		name: "pod on a node that is not managed",
		world: func(w *world) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-3"}}
			_, err := w.user.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{})
			w.must(err)
			w.pod("a", "node-3", "disk-1")
		},
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.node("node-1")
			w.node("node-2")
			w.disk("disk-1", rwo)
			test.world(w)
			w.start()
			w.run()
			w.same("calls", test.want, w.backend.calls)
			var where []string
			for _, node := range w.backend.where("disk-1") {
				where = append(where, string(node))
			}
			w.same("attached to", test.where, where)
			for _, event := range w.events() {
				if strings.Contains(event, attachdetach.FailedAttachVolume) {
					t.Errorf("a pod was told %q", event)
				}
			}
			for _, a := range w.controller.Actual().All() {
				if a.Spec == nil && len(w.controller.Desired().All()) > 0 {
					t.Errorf("%s: what it is was not learnt", a)
				}
			}
			w.same("what must not happen", nil, w.backend.wrong)
		})
	}
}

// A node whose detach keeps failing shares its back-off with the others, which have their turn all the same.
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
	w.run()
	w.quiet()
	w.same("calls", []string{
		"0s Detach disk-1 node-1: broken", "500ms Detach disk-1 node-2",
		"500ms Detach disk-1 node-1: broken", "1s Detach disk-1 node-1",
	}, w.backend.calls)
}

func TestVolumeAttachmentTellsWhatAReportedVolumeIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.kubelet("node-1").dead = true
	w.disk("disk-1", rwo)
	w.attachment("disk-1", "node-1")
	w.status("node-1", "volumesAttached", []corev1.AttachedVolume{{Name: disk1}})
	w.status("node-1", "volumesInUse", []string{string(disk1)})
	w.start()
	w.run()
	a := w.controller.Actual().Attachments(disk1)[0]
	if a.State != attachdetach.Attached || a.Spec == nil {
		t.Errorf("%s, spec %v", a, a.Spec)
	}
}
