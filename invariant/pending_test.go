package invariant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPendingObjects(t *testing.T) {
	setVolume := func(w *opsWorld, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
		v.Status.Phase = phase
		_, err := w.User.CoreV1().PersistentVolumes().UpdateStatus(w.Context(), v, updateOptions)
		w.NoError(err)
	}
	tests := []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"nothing", func(*opsWorld) {}, nil},
		{"a pod that does not run, one that does and one that is being deleted", func(w *opsWorld) {
			w.addPod("a", "")
			w.setPhase(w.addPod("b", "node-1"), corev1.PodRunning)
			w.setPhase(w.addPod("c", "node-1"), corev1.PodRunning)
			w.NoError(w.User.CoreV1().Pods("default").Delete(w.Context(), "c", metav1.DeleteOptions{}))
		}, []string{"L7 pod default/a is not running", "L6 pod default/c is being deleted"}},
		{"a claim that is being deleted", func(w *opsWorld) {
			w.addClaim("data", nil)
			w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(w.Context(),
				"data", metav1.DeleteOptions{}))
		}, []string{"L2 claim default/data is being deleted"}},
		{"volumes", func(w *opsWorld) {
			claim := w.addClaim("data", nil)
			reclaimed := func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			}
			w.addVolume("a-new", "1", nil, nil)
			setVolume(w, w.addVolume("b-free", "2", nil, nil), corev1.VolumeAvailable)
			setVolume(w, w.addVolume("c-unbound", "3", nil, nil), corev1.VolumeBound)
			setVolume(w, w.addVolume("d-bound", "4", claim, nil), corev1.VolumeBound)
			gone := claim.DeepCopy()
			gone.UID = "gone"
			setVolume(w, w.addVolume("e-of-another", "5", gone, nil), corev1.VolumeBound)
			setVolume(w, w.addVolume("f-kept", "6", gone, nil), corev1.VolumeReleased)
			setVolume(w, w.addVolume("g-reclaimed", "7", gone, reclaimed), corev1.VolumeReleased)
			w.NoError(w.User.CoreV1().PersistentVolumes().Delete(w.Context(), "b-free", metav1.DeleteOptions{}))
		}, []string{
			"L1 volume a-new must become Available or Bound", "L2 volume b-free is being deleted",
			"L2 volume c-unbound must become Available",
			"L2 volume e-of-another must be released", "L2 volume g-reclaimed must be reclaimed",
		}},
		{"attachments", func(w *opsWorld) {
			w.pair("data-1")
			w.setPhase(w.addPod("web", "node-1", claimVolume("data-1")), corev1.PodRunning)
			w.setVolumePhases(corev1.VolumeBound)
			w.addAttachment("pv-data-1", "node-1")
			w.addAttachment("pv-other", "node-1")
			node := w.addNode("node-1", nil)
			node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "disk^1"}}
			_, err := w.User.CoreV1().Nodes().UpdateStatus(w.Context(), node, updateOptions)
			w.NoError(err)
		}, []string{
			"L4 attachment att-pv-other to node-1 is not used", "L5 node node-1 lists 1 volumes attached, 0 in use",
			"L5 2 attachments, 1 listed by nodes",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t)
			test.play(w)
			var got []string
			for _, d := range PendingObjects(w.Server) {
				got = append(got, d.Rule+" "+d.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pending (-want +got):\n%s", diff)
			}
		})
	}
}

// setVolumePhases sets the phase of all volumes.
func (w *opsWorld) setVolumePhases(phase corev1.PersistentVolumePhase) {
	w.Helper()
	for _, o := range w.Server.List("persistentvolumes") {
		v := o.(*corev1.PersistentVolume).DeepCopy()
		v.Status.Phase = phase
		_, err := w.User.CoreV1().PersistentVolumes().UpdateStatus(w.Context(), v, updateOptions)
		w.NoError(err)
	}
}

func TestLeaks(t *testing.T) {
	w := newOpsWorld(t)
	w.addPod("web", "")
	w.pair("data-1")
	w.addAttachment("pv-data-1", "node-1")
	want := []string{
		"pods default/web", "persistentvolumeclaims default/data-1", "persistentvolumes /pv-data-1",
		"volumeattachments /att-pv-data-1",
	}
	if diff := cmp.Diff(want, Leaks(w.Server)); diff != "" {
		t.Errorf("leaks (-want +got):\n%s", diff)
	}
}
