package pvprotection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	*testworld.World
}

// beforeCall changes the volume just before each of a process's first n updates takes effect, so the
// update conflicts.
type beforeCall struct {
	sim.Caller
	w *world
	n *int
}

func (m beforeCall) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return m.Caller.Call(action, func() trace.Outcome {
		if action.Verb == "update" && *m.n > 0 {
			*m.n--
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, *m.n)
			testcheck.Must(m.w.User.CoreV1().PersistentVolumes().Patch(ctx, "v", types.MergePatchType, patch,
				metav1.PatchOptions{}))
		}
		return effect()
	})
}

func newWorld(t testing.TB, chooser sim.Chooser, conflicts int) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser})}
	w.User = w.Server.Client(testworld.ImmediateCaller(w.Host.Now)) // beforeCall acts within requests
	process := w.Host.Process("pvprotection")
	pvprotection.New(pvprotection.Config{
		Process:   process,
		Client:    w.Server.Client(beforeCall{process, w, &conflicts}),
		Informers: w.Server.Informers(process),
	})
	return w
}

// volume creates a volume with exactly these finalizers, in a phase.
func (w *world) volume(phase corev1.PersistentVolumePhase, finalizers ...string) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "v"}
	volumes := w.User.CoreV1().PersistentVolumes()
	volume = testcheck.Must(volumes.Create(ctx, volume, metav1.CreateOptions{}))
	volume.Finalizers = finalizers
	testcheck.Must(volumes.Update(ctx, volume, metav1.UpdateOptions{}))
	w.phase(phase)
}

func (w *world) phase(phase corev1.PersistentVolumePhase) {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	testcheck.Must(w.User.CoreV1().PersistentVolumes().Patch(ctx, "v", types.MergePatchType, patch, metav1.PatchOptions{},
		"status"))
}

func (w *world) delete() {
	w.NoError(w.User.CoreV1().PersistentVolumes().Delete(ctx, "v", metav1.DeleteOptions{}))
}

// state returns the volume's finalizers, or "gone".
func (w *world) state() string {
	obj, ok := w.Server.Get("persistentvolumes", "", "v")
	if !ok {
		return "gone"
	}
	return strings.Join(obj.GetFinalizers(), " ")
}

func (w *world) updates() int {
	return len(slices.DeleteFunc(w.Host.Log().Records(), func(r trace.Record) bool {
		return r.Kind != trace.KindAPI || r.Task == "user"
	}))
}

// TestFinalizer has the cases of upstream's TestPVProtectionController.
func TestFinalizer(t *testing.T) {
	const other = "example.com/other"
	tests := []struct {
		name       string
		finalizers []string
		phase      corev1.PersistentVolumePhase
		deleted    bool
		conflicts  int
		want       string
		updates    int
	}{
		{"without, is added", nil, corev1.VolumeAvailable, false, 0, pvprotection.Finalizer, 1},
		{
			"with, nothing",
			[]string{pvprotection.Finalizer},
			corev1.VolumeAvailable, false, 0, pvprotection.Finalizer,
			0,
		},
		{"without, adding conflicts twice", nil, corev1.VolumeAvailable, false, 2, pvprotection.Finalizer, 3},
		{
			"another's is kept",
			[]string{other},
			corev1.VolumeAvailable, false, 0,
			other + " " + pvprotection.Finalizer, 1,
		},
		{"deleted, is removed", []string{pvprotection.Finalizer}, corev1.VolumeReleased, true, 0, "gone", 1},
		{
			"deleted, removing conflicts twice",
			[]string{pvprotection.Finalizer},
			corev1.VolumeReleased, true, 2,
			"gone", 3,
		},
		{
			"deleted, another's is kept",
			[]string{other, pvprotection.Finalizer},
			corev1.VolumeReleased, true, 0,
			other, 1,
		},
		{
			"deleted but bound, is kept",
			[]string{pvprotection.Finalizer},
			corev1.VolumeBound, true, 0,
			pvprotection.Finalizer, 0,
		},
		{"deleted without, is not added", []string{other}, corev1.VolumeReleased, true, 0, other, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil, tt.conflicts)
			w.volume(tt.phase, tt.finalizers...)
			if tt.deleted {
				w.delete()
			}
			w.Run()
			if diff := cmp.Diff(tt.want, w.state()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if got := w.updates(); got != tt.updates {
				t.Errorf("got %d requests, want %d\n%s", got, tt.updates, w.Host.Log().Text())
			}
		})
	}
}

// A bound volume that is deleted stays until it is no longer bound, for any cache lag.
func TestVolumeStaysWhileBound(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, sim.NewSeeded(seed), 0)
		w.volume(corev1.VolumeAvailable, pvprotection.Finalizer)
		users := w.Host.Process("users")
		client := w.Server.Client(users)
		users.User("", func(ctx context.Context) {
			volumes := client.CoreV1().PersistentVolumes()
			patch := []byte(`{"status":{"phase":"Bound"}}`)
			testcheck.Must(volumes.Patch(ctx, "v", types.MergePatchType, patch, metav1.PatchOptions{}, "status"))
			testcheck.Must("", volumes.Delete(ctx, "v", metav1.DeleteOptions{}))
		})
		w.Run()
		if w.state() != pvprotection.Finalizer {
			t.Fatalf("seed %d: a bound volume went\n%s", seed, w.Host.Log().Text())
		}
		w.phase(corev1.VolumeReleased)
		w.Run()
		if w.state() != "gone" {
			t.Fatalf("seed %d: a released volume stays\n%s", seed, w.Host.Log().Text())
		}
	}
}
