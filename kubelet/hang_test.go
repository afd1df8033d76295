package kubelet_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// hangs has each call of a driver's method about a volume not return before the answer is given.
func (w *world) hangs(method, volume string) (answer func()) {
	hanging := true
	w.driver = func(called string, request any) error {
		about, ok := request.(interface{ GetVolumeId() string })
		if hanging && called == method && ok && about.GetVolumeId() == volume {
			testcheck.NoError(w.t, w.Wait(w.t.Context(), "the driver to answer", func() bool { return !hanging }))
		}
		return nil
	}
	return func() { hanging = false }
}

// handleOf is what the driver calls the volume of a claim.
func (w *world) handleOf(claim string) string {
	w.t.Helper()
	for _, object := range w.Server().List("persistentvolumes") {
		if v := object.(*corev1.PersistentVolume); v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Name == claim {
			return v.Spec.CSI.VolumeHandle
		}
	}
	w.t.Fatalf("no volume for claim %s", claim)
	return ""
}

// TestDriverThatHangs with one volume holds up that volume only: other pods come and go. Whether it
// answers while its pod is there or after the pod was deleted, all is right in the end (L7).
func TestDriverThatHangs(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		for _, deleted := range []bool{false, true} {
			name := method
			if deleted {
				name += ", and the pod is deleted"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.create("first", "bad")
				w.rest()
				w.delete("first")
				w.rest()
				answer := w.hangs(method, w.handleOf("bad"))
				w.create("stuck", "bad")
				if strings.HasPrefix(method, "NodeUn") {
					testcheck.NoError(w.t, w.WaitForPod(t.Context(), "default", "stuck", corev1.PodRunning))
					w.delete("stuck")
				}
				w.untilHangs()
				w.create("other", "good")
				testcheck.NoError(w.t, w.WaitForPod(t.Context(), "default", "other", corev1.PodRunning))
				w.delete("other")
				testcheck.NoError(w.t, w.WaitForGone(t.Context(), "pods", "default", "other"))
				if deleted && !strings.HasPrefix(method, "NodeUn") {
					w.delete("stuck")
					w.settle()
				}
				answer()
				w.rest()
				_, there := w.Server().Get("pods", "default", "stuck")
				testcheck.Equal(w.t, "the pod is there", !deleted && !strings.HasPrefix(method, "NodeUn"), there)
				if there {
					testcheck.Equal(w.t, "its phase", corev1.PodRunning, w.pod("stuck").Status.Phase)
					w.delete("stuck")
					w.rest()
				}
				testcheck.Equal(w.t, "attachments", 0, len(w.Server().List("volumeattachments")))
				testcheck.Equal(w.t, "owed", []string{}, w.Pending())
			})
		}
	}
}

// untilHangs lets the world go on until the driver hangs.
func (w *world) untilHangs() {
	w.t.Helper()
	testcheck.NoError(w.t, w.Wait(w.t.Context(), "the driver to hang", func() bool {
		for _, s := range w.host.Waiting() {
			if strings.Contains(s, "the driver to answer") {
				return true
			}
		}
		return false
	}))
}

// settle lets the world go on until nothing else is left to happen.
func (w *world) settle() {
	w.t.Helper()
	if err := w.host.Run(); err != nil {
		w.t.Fatal(err)
	}
}
