package pvcontroller_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// The four writes of a binding, in order.
const (
	w1 = "update persistentvolumes/v: claim=default/c, bound-by-controller=yes"
	w2 = "update/status persistentvolumes/v: phase=Bound"
	w3 = "update persistentvolumeclaims/default/c: volume=v, bind-completed=yes, bound-by-controller=yes"
	w4 = "update/status persistentvolumeclaims/default/c: phase=Bound, capacity=1Gi"
)

var (
	boundVolume = "v Bound for c by-controller"
	boundClaim  = "c Bound to v 1Gi by-controller completed"
)

func TestBindIsFourWritesInOrder(t *testing.T) {
	w := newWorld(t, nil)
	w.volume("v", "1Gi")
	w.claim("c", "1Gi")
	w.control()
	w.Run()
	w.wantState(boundVolume, boundClaim)
	w.wantRequests(0, "update/status persistentvolumes/v: phase=Available", w1, w2, w3, w4)
	w.wantEvents()
	claim := w.claimNow("c")
	if got := claim.Status.AccessModes; len(got) != 1 || got[0] != corev1.ReadWriteOnce {
		t.Errorf("access modes: got %v", got)
	}
}

// A claim created before its volume is bound as soon as there is one; upstream waits for its
// resync.
func TestLateVolumeIsOffered(t *testing.T) {
	w := newWorld(t, nil)
	w.control()
	w.claim("c", "1Gi")
	w.Run()
	w.wantEvents("c Normal FailedBinding: no persistent volumes available for this claim and no storage class is set")
	w.volume("v", "1Gi")
	w.Run()
	w.wantState(boundVolume, boundClaim)
}

// TestBindRecoversFromConflict changes the object just before each of the four writes, so that the
// write conflicts. However stale the caches are, a successful write is not repeated.
func TestBindRecoversFromConflict(t *testing.T) {
	tests := []struct{ name, verb, object string }{
		{"W1", "update", "persistentvolumes/v"},
		{"W2", "update/status", "persistentvolumes/v"},
		{"W3", "update", "persistentvolumeclaims/default/c"},
		{"W4", "update/status", "persistentvolumeclaims/default/c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forSeeds(t, func(w *world) {
				changed, armed := false, false
				w.control(func(a trace.Action) {
					if changed || !armed || a.Verb != tt.verb || a.Object != tt.object {
						return
					}
					changed = true
					if tt.object == "persistentvolumes/v" {
						w.editVolume("v", marked("user", "was here"))
					} else {
						w.editClaim("c", annotated("user", "was here"))
					}
				})
				w.volume("v", "1Gi")
				w.Run()
				armed = true
				since := w.Host.Log().Len()
				w.claim("c", "1Gi")
				w.Run()
				w.wantState(boundVolume, boundClaim)
				failed := tt.verb + " " + tt.object + ": failed"
				got := slices.DeleteFunc(w.requests(since), func(line string) bool { return line == failed })
				if diff := cmp.Diff([]string{w1, w2, w3, w4}, got); diff != "" || !changed {
					w.Errorf("changed: %v; requests except for %q (-want +got):\n%s", changed, failed, diff)
				}
				w.wantEvents()
			})
		})
	}
}

// TestBindContinuesAfterCrash has the IDs of upstream's binder_test.go: the binding continues from
// the state that a controller left.
func TestBindContinuesAfterCrash(t *testing.T) {
	tests := []struct {
		name string
		left func(w *world, claim *corev1.PersistentVolumeClaim)
		want []string
	}{
		{"1-6 after W1, by another", func(w *world, claim *corev1.PersistentVolumeClaim) {
			w.volume("v", "1Gi", reservedFor(claim))
		}, []string{w2, w3, w4}},
		{"1-8 after W1", func(w *world, claim *corev1.PersistentVolumeClaim) {
			w.volume("v", "1Gi", reservedFor(claim), marked(storagehelpers.AnnBoundByController, "yes"))
		}, []string{w2, w3, w4}},
		{"1-9 after W2", func(w *world, claim *corev1.PersistentVolumeClaim) {
			w.volume("v", "1Gi", reservedFor(claim), marked(storagehelpers.AnnBoundByController, "yes"))
			w.phase("v", corev1.VolumeBound)
		}, []string{w3, w4}},
		{"1-10 after W3", func(w *world, claim *corev1.PersistentVolumeClaim) {
			w.volume("v", "1Gi", reservedFor(claim), marked(storagehelpers.AnnBoundByController, "yes"))
			w.phase("v", corev1.VolumeBound)
			w.editClaim("c", func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName = "v"
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBoundByController, "yes")
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
			})
		}, []string{w4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			tt.left(w, w.claim("c", "1Gi"))
			w.control()
			w.Run()
			w.wantRequests(0, tt.want...)
			w.wantEvents()
		})
	}
}

// phase sets a volume's phase.
func (w *world) phase(volume string, phase corev1.PersistentVolumePhase) {
	volumes := w.User.CoreV1().PersistentVolumes()
	v := testcheck.Must(volumes.Get(ctx, volume, metav1.GetOptions{}))
	v.Status.Phase = phase
	testcheck.Must(volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}))
}

// A claim that is deleted between W2 and W3 leaves its volume Released, and a new claim with its
// name does not get it.
func TestClaimRecreatedWhileBindingIsAnother(t *testing.T) {
	w := newWorld(t, nil)
	done := false
	w.control(func(a trace.Action) {
		if !done && a.Verb == "update" && a.Object == "persistentvolumeclaims/default/c" {
			done = true
			w.deleteClaim("c")
			w.claim("c", "1Gi")
		}
	})
	w.volume("v", "1Gi")
	w.Run()
	w.claim("c", "1Gi")
	w.Run()
	w.wantState("v Released for c by-controller", "c Pending")
}

// Two volumes are pre-bound to one claim: one is bound, the other becomes Available (10-2).
func TestVolumesReservedForOneClaim(t *testing.T) {
	w := newWorld(t, nil)
	claim := w.claim("c", "1Gi")
	w.volume("v", "1Gi", reservedFor(claim), marked(storagehelpers.AnnBoundByController, "yes"))
	w.volume("v-by-controller", "1Gi", reservedFor(claim), marked(storagehelpers.AnnBoundByController, "yes"))
	w.volume("v-by-user", "1Gi", reservedFor(claim))
	w.volume("v-provisioned", "1Gi", reservedFor(claim), toDelete,
		marked(storagehelpers.AnnDynamicallyProvisioned, "disk.example.com"))
	w.control()
	w.Run()
	w.wantState(
		boundVolume,
		"v-by-controller Available",
		"v-by-user Available for c by name",
		"v-provisioned Released for c",
		boundClaim,
	)
}

// Two claims wait. A volume that was offered to one of them is offered to the other if the first is
// bound to another one or deleted.
func TestOfferIsPassedOn(t *testing.T) {
	const shared = corev1.ReadWriteMany
	large := func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = shared }
	both := func(v *corev1.PersistentVolume) { v.Spec.AccessModes = append(v.Spec.AccessModes, shared) }
	only := func(v *corev1.PersistentVolume) { v.Spec.AccessModes[0] = shared }
	waiting := func(w *world) {
		w.control()
		w.claim("large", "2Gi", large)
		w.claim("small", "1Gi")
		w.Run()
	}
	t.Run("bound to another volume", func(t *testing.T) {
		forSeeds(t, func(w *world) {
			waiting(w)
			w.users(
				func(ctx context.Context, u user) { u.makeVolume(ctx, "v", "3Gi", both) },
				func(ctx context.Context, u user) {
					u.makeVolume(ctx, "w", "2Gi", only)
				}, // nearer to the request of large
			)
			w.Run()
			w.checkEnd()
		})
	})
	t.Run("deleted", func(t *testing.T) {
		forSeeds(t, func(w *world) {
			waiting(w)
			w.users(
				func(ctx context.Context, u user) { u.makeVolume(ctx, "v", "3Gi", both) },
				func(ctx context.Context, u user) { u.deleteClaim(ctx, "large") },
			)
			w.Run()
			w.checkEnd()
		})
	})
}
