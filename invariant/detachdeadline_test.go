package invariant

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim/trace"
)

// attach creates VolumeAttachment a of the volume of claim data-1 to node-1.
func (w *opsWorld) attach() {
	w.Helper()
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/f"}}}
	a.Spec.Attacher, a.Spec.NodeName = "disk", "node-1"
	name := "pv-data-1"
	a.Spec.Source.PersistentVolumeName = &name
	_, err := w.User.StorageV1().VolumeAttachments().Create(w.Context(), a, metav1.CreateOptions{})
	w.NoError(err)
}

// detach deletes the attachment in an operation of the attach/detach controller.
func (w *opsWorld) detach() {
	w.Helper()
	w.NoError(w.User.StorageV1().VolumeAttachments().Delete(w.Context(), "a", metav1.DeleteOptions{}))
	w.note("attachdetach/volume_detach csi/disk^vol-1", trace.KindAPI, "delete", "volumeattachments/a", "", nil)
}

func TestDetachDeadline(t *testing.T) {
	const late = "L4: an attachment that no pod of its node needs: volume pv-data-1 is being detached from node node-1 only now, 4m0s after"
	for _, test := range []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"soon", func(w *opsWorld) { w.pass(2 * time.Minute) }, nil},
		{"late", func(w *opsWorld) { w.pass(4 * time.Minute) }, []string{late}},
		{"after a failure", func(w *opsWorld) {
			w.pass(2 * time.Minute)
			w.note("attachdetach/volume_detach csi/disk^vol-1", trace.KindAPI, "get",
				"nodes/node-1", "", errors.New("not now"))
			w.pass(2 * time.Minute)
		}, nil},
		{"after the failure of another operation", func(w *opsWorld) {
			w.pass(2 * time.Minute)
			w.note("kubelet(node-1)/pods", trace.KindAPI, "get", "nodes/node-1", "", errors.New("not now"))
			w.pass(2 * time.Minute)
		}, []string{late}},
		{"after a crash", func(w *opsWorld) {
			w.pass(2 * time.Minute)
			w.event("crash", "attachdetach")
			w.pass(2 * time.Minute)
		}, nil},
		{"after a tick", func(w *opsWorld) {
			w.event("tick", "")
			w.pass(4 * time.Minute)
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "L4")
			w.addNode("node-1", nil)
			w.setClaimStatus(w.pair("data-1"), corev1.ClaimBound, "1Gi")
			w.attach()
			pod := w.addPod("web", "node-1", claimVolume("data-1"))
			w.pass(time.Hour)
			w.setPhase(pod, corev1.PodSucceeded)
			test.play(w)
			w.detach()
			w.broken(test.want...)
		})
	}
}

func TestDetachBackoff(t *testing.T) {
	for _, test := range []struct {
		name  string
		rests []time.Duration
		want  int
	}{
		{"as they should", []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, 0},
		{"too little", []time.Duration{time.Second, time.Second}, 0},
		{"much too little", []time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, 1},
		{"anew after long", []time.Duration{time.Second, 2 * time.Second, 5 * time.Minute, time.Second}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I23b")
			w.addNode("node-1", nil)
			w.pair("data-1")
			w.attach()
			w.detach()
			for _, rest := range test.rests {
				w.pass(rest)
				w.detach()
			}
			if n := len(w.check.Violations()); n != test.want {
				t.Errorf("violations: %v, want %d", w.check.Violations(), test.want)
			}
		})
	}
}
