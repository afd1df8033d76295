package pvprotection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	testing.TB
	host   *sim.Stepped
	server *fake.Server
	user   kubernetes.Interface // acts at once
}

// atOnce is a caller whose calls take effect at once.
type atOnce struct{ host sim.Host }

func (a atOnce) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }
func (a atOnce) Now() time.Time                                                 { return a.host.Now() }

// meddler changes the volume just before each of a process's first n updates takes effect, so the
// update conflicts.
type meddler struct {
	sim.Caller
	w *world
	n *int
}

func (m meddler) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return m.Caller.Call(action, func() trace.Outcome {
		if action.Verb == "update" && *m.n > 0 {
			*m.n--
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, *m.n)
			must(m.w.user.CoreV1().PersistentVolumes().Patch(ctx, "v", types.MergePatchType, patch,
				metav1.PatchOptions{}))
		}
		return effect()
	})
}

func newWorld(t testing.TB, chooser sim.Chooser, conflicts int) *world {
	host := sim.NewStepped(sim.SteppedConfig{Chooser: chooser})
	t.Cleanup(host.Close)
	server := fake.NewServer(fake.Config{Now: host.Now})
	w := &world{TB: t, host: host, server: server, user: server.Client(atOnce{host})}
	process := host.Process("pvprotection")
	pvprotection.New(pvprotection.Config{
		Process:   process,
		Client:    server.Client(meddler{process, w, &conflicts}),
		Informers: server.Informers(process),
	})
	return w
}

func must[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

func (w *world) settle() {
	w.Helper()
	if err := w.host.Run(); err != nil {
		w.Fatalf("%v\n%s", err, w.host.Log().Text())
	}
}

// volume creates a volume with exactly these finalizers, in a phase.
func (w *world) volume(phase corev1.PersistentVolumePhase, finalizers ...string) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "v"}
	volumes := w.user.CoreV1().PersistentVolumes()
	volume = must(volumes.Create(ctx, volume, metav1.CreateOptions{}))
	volume.Finalizers = finalizers
	must(volumes.Update(ctx, volume, metav1.UpdateOptions{}))
	w.phase(phase)
}

func (w *world) phase(phase corev1.PersistentVolumePhase) {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	must(w.user.CoreV1().PersistentVolumes().Patch(ctx, "v", types.MergePatchType, patch, metav1.PatchOptions{},
		"status"))
}

func (w *world) delete() {
	must("", w.user.CoreV1().PersistentVolumes().Delete(ctx, "v", metav1.DeleteOptions{}))
}

// state returns the volume's finalizers, or "gone".
func (w *world) state() string {
	obj, ok := w.server.Get("persistentvolumes", "", "v")
	if !ok {
		return "gone"
	}
	return strings.Join(obj.GetFinalizers(), " ")
}

func (w *world) updates() int {
	return len(slices.DeleteFunc(w.host.Log().Records(), func(r trace.Record) bool {
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
			"with, nothing", []string{pvprotection.Finalizer}, corev1.VolumeAvailable, false, 0, pvprotection.Finalizer,
			0,
		},
		{"without, adding conflicts twice", nil, corev1.VolumeAvailable, false, 2, pvprotection.Finalizer, 3},
		{
			"another's is kept", []string{other}, corev1.VolumeAvailable, false, 0,
			other + " " + pvprotection.Finalizer, 1,
		},
		{"deleted, is removed", []string{pvprotection.Finalizer}, corev1.VolumeReleased, true, 0, "gone", 1},
		{
			"deleted, removing conflicts twice", []string{pvprotection.Finalizer}, corev1.VolumeReleased, true, 2,
			"gone", 3,
		},
		{
			"deleted, another's is kept", []string{other, pvprotection.Finalizer}, corev1.VolumeReleased, true, 0,
			other, 1,
		},
		{
			"deleted but bound, is kept", []string{pvprotection.Finalizer}, corev1.VolumeBound, true, 0,
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
			w.settle()
			if diff := cmp.Diff(tt.want, w.state()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if got := w.updates(); got != tt.updates {
				t.Errorf("got %d requests, want %d\n%s", got, tt.updates, w.host.Log().Text())
			}
		})
	}
}

// A bound volume that is deleted stays until it is no longer bound, for any cache lag.
func TestVolumeStaysWhileBound(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, sim.NewSeeded(seed), 0)
		w.volume(corev1.VolumeAvailable, pvprotection.Finalizer)
		users := w.host.Process("users")
		client := w.server.Client(users)
		users.User("", func(ctx context.Context) {
			volumes := client.CoreV1().PersistentVolumes()
			patch := []byte(`{"status":{"phase":"Bound"}}`)
			must(volumes.Patch(ctx, "v", types.MergePatchType, patch, metav1.PatchOptions{}, "status"))
			must("", volumes.Delete(ctx, "v", metav1.DeleteOptions{}))
		})
		w.settle()
		if w.state() != pvprotection.Finalizer {
			t.Fatalf("seed %d: a bound volume went\n%s", seed, w.host.Log().Text())
		}
		w.phase(corev1.VolumeReleased)
		w.settle()
		if w.state() != "gone" {
			t.Fatalf("seed %d: a released volume stays\n%s", seed, w.host.Log().Text())
		}
	}
}
