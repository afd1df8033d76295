package vacprotection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/controllers/vacprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	*testworld.World
	process *sim.Process
}

// refusing refuses a process's first n updates.
type refusing struct {
	sim.Caller
	n *int
}

func (r refusing) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return r.Caller.Call(action, func() trace.Outcome {
		if action.Verb == "update" && *r.n > 0 {
			*r.n--
			return trace.Outcome{Err: apierrors.NewForbidden(schema.GroupResource{}, action.Object, nil)}
		}
		return effect()
	})
}

func newWorld(t testing.TB, refusals int) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 1000})}
	process := w.Host.Process("vacprotection")
	w.process = process
	vacprotection.New(vacprotection.Config{
		Process:   process,
		Client:    w.Server.Client(refusing{process, &refusals}),
		Informers: w.Server.Informers(process),
	})
	return w
}

// class stores a class with these finalizers.
func (w *world) class(name string, finalizers ...string) {
	w.NoError(w.Server.Add(&storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, DriverName: "disk.example.com",
		Parameters: map[string]string{"iops": "100"},
	}))
}

// terminating stores a class that is being deleted.
func (w *world) terminating(name string) {
	w.class(name, vacprotection.Finalizer)
	w.NoError(w.User.StorageV1().VolumeAttributesClasses().Delete(ctx, name, metav1.DeleteOptions{}))
}

// volume stores a volume with a class.
func (w *world) volume(name, class string) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.VolumeAttributesClassName = &class
	w.NoError(w.Server.Add(v))
}

// A reference is what a claim says of classes; "" is nothing.
type reference struct{ requested, current, target string }

func (r reference) apply(claim *corev1.PersistentVolumeClaim) {
	claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName = &r.requested, &r.current
	claim.Status.ModifyVolumeStatus = nil
	if r.target != "" {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: r.target}
	}
}

func (w *world) claim(name string, r reference) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	r.apply(claim)
	w.NoError(w.Server.Add(claim))
}

func (w *world) changeClaim(name string, r reference) {
	w.Server.UpdateStored("persistentvolumeclaims", "default", name, func(stored fake.Object) fake.Object {
		claim := stored.(*corev1.PersistentVolumeClaim).DeepCopy()
		r.apply(claim)
		return claim
	})
}

func (w *world) deleteVolume(name string) {
	w.NoError(w.User.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}))
}

func (w *world) deleteClaim(name string) {
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}))
}

// state returns the finalizers of class a, or "gone".
func (w *world) state() string {
	obj, ok := w.Server.Get("volumeattributesclasses", "", "a")
	if !ok {
		return "gone"
	}
	return strings.Join(obj.GetFinalizers(), " ")
}

// updates returns the number of the controller's requests.
func (w *world) updates() int {
	return len(slices.DeleteFunc(w.Host.Log().Records(), func(r trace.Record) bool {
		return r.Kind != trace.KindAPI || trace.Process(r.Task) != "vacprotection"
	}))
}

// TestFinalizer has the cases of upstream's TestVACProtectionController. Each sets up a world, which
// comes to rest, and then changes something.
func TestFinalizer(t *testing.T) {
	const kept = vacprotection.Finalizer
	tests := []struct {
		name     string
		refusals int
		before   func(w *world)
		change   func(w *world)
		want     string
		updates  int // by the change
	}{
		{"class without", 0, nil, func(w *world) { w.class("a") }, kept, 1},
		{"class with", 0, nil, func(w *world) { w.class("a", kept) }, kept, 0},
		{"adding is refused twice", 2, nil, func(w *world) { w.class("a") }, kept, 3},
		{"another's is kept", 0, nil, func(w *world) { w.class("a", "example.com/other") }, "example.com/other " + kept, 1},
		{"deleted", 0, nil, func(w *world) { w.terminating("a") }, "gone", 1},
		{"removing is refused twice", 2, nil, func(w *world) { w.terminating("a") }, "gone", 3},
		{
			"deleted, a volume has it", 0,
			func(w *world) { w.volume("v", "a") },
			func(w *world) { w.terminating("a") }, kept, 0,
		},
		{
			"deleted, a claim requests it", 0,
			func(w *world) { w.claim("c", reference{requested: "a"}) },
			func(w *world) { w.terminating("a") }, kept, 0,
		},
		{
			"the volume changes its class", 0,
			func(w *world) { w.volume("v", "a"); w.terminating("a") },
			func(w *world) {
				w.Server.UpdateStored("persistentvolumes", "", "v", func(stored fake.Object) fake.Object {
					volume := stored.(*corev1.PersistentVolume).DeepCopy()
					*volume.Spec.VolumeAttributesClassName = "b"
					return volume
				})
			}, "gone", 1,
		},
		{
			"the volume is deleted", 0,
			func(w *world) { w.volume("v", "a"); w.terminating("a") },
			func(w *world) { w.deleteVolume("v") }, "gone", 1,
		},
		{
			"one of two volumes is deleted", 0,
			func(w *world) { w.volume("v", "a"); w.volume("v2", "a"); w.terminating("a") },
			func(w *world) { w.deleteVolume("v") }, kept, 0,
		},
		{
			"the volume is deleted, a claim requests it", 0,
			func(w *world) { w.volume("v", "a"); w.claim("c", reference{requested: "a"}); w.terminating("a") },
			func(w *world) { w.deleteVolume("v") }, kept, 0,
		},
		{
			"the claim changes its class", 0,
			func(w *world) { w.claim("c", reference{requested: "a"}); w.terminating("a") },
			func(w *world) { w.changeClaim("c", reference{requested: "b"}) }, "gone", 1,
		},
		{
			"the claim changes its class, its volume has the old one", 0,
			func(w *world) { w.claim("c", reference{requested: "a"}); w.terminating("a") },
			func(w *world) { w.changeClaim("c", reference{requested: "b", current: "a"}) }, kept, 0,
		},
		{
			"the claim changes its class, its volume is still being changed to the old one", 0,
			func(w *world) { w.claim("c", reference{requested: "a"}); w.terminating("a") },
			func(w *world) { w.changeClaim("c", reference{requested: "b", target: "a"}) }, kept, 0,
		},
		{
			"the change of the claim's volume ends", 0,
			func(w *world) { w.claim("c", reference{"b", "b", "a"}); w.terminating("a") },
			func(w *world) { w.changeClaim("c", reference{requested: "b", current: "b"}) }, "gone", 1,
		},
		{
			"one of two claims is deleted", 0,
			func(w *world) {
				w.claim("c", reference{requested: "a"})
				w.claim("c2", reference{requested: "a"})
				w.terminating("a")
			},
			func(w *world) { w.deleteClaim("c") }, kept, 0,
		},
		{
			"the claim is deleted, a volume has it", 0,
			func(w *world) { w.claim("c", reference{requested: "a"}); w.volume("v", "a"); w.terminating("a") },
			func(w *world) { w.deleteClaim("c") }, kept, 0,
		},
		{
			"the claim is deleted", 0,
			func(w *world) { w.claim("c", reference{requested: "a"}); w.terminating("a") },
			func(w *world) { w.deleteClaim("c") }, "gone", 1,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.refusals)
			if test.before != nil {
				test.before(w)
				w.Run()
			}
			before := w.updates()
			test.change(w)
			w.Run()
			if got := w.state(); got != test.want {
				t.Errorf("finalizers: got %q, want %q", got, test.want)
			}
			if got := w.updates() - before; got != test.updates {
				t.Errorf("%d updates, want %d\n%s", got, test.updates, w.Host.Log().Text())
			}
		})
	}
}

// TestDeletionNoticedByARelist checks that a class is released if the cache learns from a list that
// the last claim was deleted.
func TestDeletionNoticedByARelist(t *testing.T) {
	w := newWorld(t, 0)
	w.claim("c", reference{requested: "a"})
	w.terminating("a")
	w.Run()
	w.deleteClaim("c")
	if !w.Server.BreakWatch(w.process, "persistentvolumeclaims") {
		t.Fatal("the cache of claims is not behind")
	}
	w.Run()
	if got := w.state(); got != "gone" {
		t.Errorf("finalizers: got %q, want the class gone\n%s", got, w.Host.Log().Text())
	}
}

// TestUnseenClaimDoesNotKeepItsClass shows upstream's race: the class of a claim that the cache has
// not seen yet disappears.
func TestUnseenClaimDoesNotKeepItsClass(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late=", late), func(t *testing.T) {
			w := newWorld(t, 0)
			w.class("a", vacprotection.Finalizer)
			w.Run()
			w.claim("c", reference{requested: "a"})
			if !late {
				w.Run()
			}
			w.NoError(w.User.StorageV1().VolumeAttributesClasses().Delete(ctx, "a", metav1.DeleteOptions{}))
			if late {
				w.Step("vacprotection/cache volumeattributesclasses")
				w.Step("vacprotection/vacprotection") // decides
				w.Step("vacprotection/vacprotection") // writes
			}
			w.Run()
			if got, want := w.state() == "gone", late; got != want {
				t.Errorf("class is gone: %v, want %v\n%s", got, want, w.Host.Log().Text())
			}
		})
	}
}
