package volumemanager_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// TestClaimThatIsNotReady is read again, with a back-off, and then the pod's volume is mounted.
func TestClaimThatIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.attach("disk-1")
	w.add("a", "disk-1")
	w.pass(100 * time.Millisecond)
	// At 10 ms, after its back-off; and at 100 ms, when the poll is due. Nothing changed in
	// between, and an earlier poll would have read the same.
	testcheck.Equal(w, "attempts", []time.Duration{0, 10 * ms, 100 * ms}, w.lookups())
	w.claim("disk-1")
	w.pass(10 * time.Second)
	testcheck.Equal(w, "unprocessed", map[string]string{"disk-1": "error processing PVC default/disk-1: PVC is not bound"}, w.manager.Unprocessed("a"))
	attempts := w.lookups()
	w.volume("disk-1", func(*corev1.PersistentVolume) {})
	w.bind("disk-1")
	w.Run()
	w.pod("a", true, true)
	testcheck.Equal(w, "unprocessed", map[string]string{}, w.manager.Unprocessed("a"))
	testcheck.Equal(w, "attempts after the last", len(attempts)+1, len(w.lookups()))
	w.quiet()
}

const ms = time.Millisecond

// lookups returns the times at which the kubelet read claims.
func (w *world) lookups() []time.Duration {
	var times []time.Duration
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && r.Verb == "get" && r.Object == "persistentvolumeclaims/default/disk-1" {
			times = append(times, r.At)
		}
	}
	return times
}

// TestPodIsRemovedWhileItsClaimIsRead checks that its volume is not wanted when the answer arrives.
func TestPodIsRemovedWhileItsClaimIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	w.add("a", "disk-1")
	w.upTo("volume populator: api get persistentvolumes/disk-1")
	w.remove("a")
	w.add("a", "disk-1") // the same pod, added again
	w.remove("a")
	w.Run()
	w.calls()
	w.inUse()
	w.pod("a", false, false)
	w.quiet()
}

func TestProcessingErrors(t *testing.T) {
	t.Parallel()
	const prefix = "error processing PVC default/disk-1: "
	block := corev1.PersistentVolumeBlock
	tests := []struct {
		name string
		make func(w *world) string // returns the message
	}{
		{"no claim", func(*world) string {
			return prefix + `failed to fetch PVC from API server: persistentvolumeclaims "disk-1" not found`
		}},
		{"claim is pending", func(w *world) string {
			w.claim("disk-1")
			return prefix + "PVC is not bound"
		}},
		{"no volume", func(w *world) string {
			w.claim("disk-1")
			w.bind("disk-1")
			return prefix + `failed to fetch PV disk-1 from API server: persistentvolumes "disk-1" not found`
		}},
		{"volume without a claim", func(w *world) string {
			w.claim("disk-1")
			w.volume("disk-1", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
			w.bind("disk-1")
			return prefix +
				"found PV object disk-1 but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
		}},
		{"volume of an earlier claim", func(w *world) string {
			w.claim("disk-1")
			w.volume("disk-1", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "old" })
			w.bind("disk-1")
			return prefix + "found PV object disk-1 but its pv.Spec.ClaimRef.UID old does not point to claim.UID " +
				string(w.claimUID("disk-1"))
		}},
		{"block volume", func(w *world) string {
			w.claim("disk-1")
			w.volume("disk-1", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block })
			w.bind("disk-1")
			return "volume disk-1 has volumeMode Block, but is specified in volumeMounts"
		}},
		{"claim is being deleted", func(w *world) string {
			w.disk("disk-1")
			claims := w.User.CoreV1().PersistentVolumeClaims("default")
			c, err := claims.Get(w.Context(), "disk-1", metav1.GetOptions{})
			w.NoError(err)
			c.Finalizers = []string{"example.com/other"}
			_, err = claims.Update(w.Context(), c, metav1.UpdateOptions{})
			w.NoError(err)
			w.NoError(claims.Delete(w.Context(), "disk-1", metav1.DeleteOptions{}))
			return prefix + "PVC is being deleted"
		}},
		{"no plugin", func(w *world) string {
			w.claim("disk-1")
			w.volume("disk-1", func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{
					Server: "s",
					Path:   "/p",
				}}
			})
			w.bind("disk-1")
			return `failed to get Plugin from volumeSpec for volume "disk-1" err=no volume plugin matched`
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			message := tt.make(w)
			w.add("a", "disk-1")
			w.pass(time.Second)
			testcheck.Equal(w, "unprocessed", map[string]string{"disk-1": message}, w.manager.Unprocessed("a"))
			w.pod("a", false, false)
			w.inUse()
			w.calls()
			w.remove("a")
			w.Run()
			w.quiet()
		})
	}
}

// TestDeletedClaimStaysUsable for a pod that used it before.
func TestDeletedClaimStaysUsable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "disk-1", metav1.DeleteOptions{}))
	w.add("a", "disk-1")
	w.Run()
	w.pod("a", true, true)
	w.quiet()
}
