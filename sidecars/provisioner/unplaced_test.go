package provisioner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

// unplacedCase is a claim whose request to the driver cannot be built until an object exists.
type unplacedCase struct {
	name    string
	world   func(t *testing.T, chooser sim.Chooser) *world
	claim   *corev1.PersistentVolumeClaim
	want    string // the event
	supply  func(w *world)
	volumes int // afterwards
}

func unplacedCases() []unplacedCase {
	withClass := func(w *world) *world {
		w.class(newClass("fast", storagev1.VolumeBindingImmediate))
		return w
	}
	return []unplacedCase{
		{
			name: "no attributes class", world: modifiableWith, claim: withAttributes(newClaim("data", "fast")), want: missingAttributes,
			supply: func(w *world) { w.attributesClass(driverName) }, volumes: 1,
		},
		{
			name: "attributes class of another driver",
			world: func(t *testing.T, chooser sim.Chooser) *world {
				t.Helper()
				w := modifiableWith(t, chooser)
				w.attributesClass("other.example.com")
				return w
			},
			claim: withAttributes(newClaim("data", "fast")),
			want:  `ProvisioningFailed: VAC gold referenced in PVC is for driver other.example.com which does not match driver name ` + driverName,
			supply: func(w *world) {
				classes := w.User.StorageV1().VolumeAttributesClasses()
				testcheck.Must(classes.Patch(context.Background(), "gold", types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
				w.NoError(classes.Delete(context.Background(), "gold", metav1.DeleteOptions{}))
				w.attributesClass(driverName)
			},
			volumes: 1,
		},
		{
			name: "no source",
			world: func(t *testing.T, chooser sim.Chooser) *world {
				t.Helper()
				w := withClass(newWorld(t, chooser))
				w.cloning()
				return w
			},
			claim: newClone("data", "fast", "source"),
			want: `ProvisioningFailed: error getting handle for DataSource Type PersistentVolumeClaim by Name source: ` +
				`error getting PVC source (namespace "default") from api server: persistentvolumeclaim "source" not found`,
			supply: func(w *world) {
				source := newClaim("source", "fast")
				source.Annotations, source.Spec.VolumeName = nil, "source" // not for the provisioner
				w.volumeOf(w.create(source))
				testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Patch(context.Background(), "source",
					types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status"))
			},
			volumes: 2,
		},
		{
			name: "no topology",
			world: func(t *testing.T, chooser sim.Chooser) *world {
				t.Helper()
				w := withClass(newWorldWith(t, chooser, provisioner.Config{Topology: true}))
				w.cloning()
				return w
			},
			claim: newClaim("data", "fast"), want: "ProvisioningFailed: error generating accessibility requirements: no available topology found",
			supply: func(w *world) { w.node("node-1", "a") }, volumes: 1,
		},
	}
}

// volumeOf creates the PersistentVolume of a source claim.
func (w *world) volumeOf(source *corev1.PersistentVolumeClaim) {
	w.Helper()
	volumes := w.User.CoreV1().PersistentVolumes()
	testcheck.Must(volumes.Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "source"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: source.Spec.AccessModes, Capacity: source.Spec.Resources.Requests, StorageClassName: "fast",
			ClaimRef: &corev1.ObjectReference{Namespace: source.Namespace, Name: source.Name, UID: source.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "source"},
			},
		},
	}, metav1.CreateOptions{}))
	testcheck.Must(volumes.Patch(context.Background(), "source", types.MergePatchType,
		[]byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status"))
}

// TestUnplacedClaimIsRetriedInTheBackground checks that the world comes to rest without the object
// that is missing, with one event, and provisions the volume when the object exists.
func TestUnplacedClaimIsRetriedInTheBackground(t *testing.T) {
	for _, c := range unplacedCases() {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t, nil)
			w.create(c.claim.DeepCopy())
			w.Run()
			for _, obj := range w.Server.List("events") {
				if e := obj.(*corev1.Event); e.Reason == "ProvisioningFailed" && e.Count != 1 {
					t.Errorf("%q was recorded %d times, want once", e.Message, e.Count)
				}
			}
			if !slices.Contains(w.events(), c.want) || len(w.created()) != 0 {
				t.Errorf("events %q, %d requests; want %q", w.events(), len(w.created()), c.want)
			}
			c.supply(w)
			w.Run()
			if len(w.volumes()) != c.volumes {
				t.Errorf("%d volumes, want %d; events %q", len(w.volumes()), c.volumes, w.events())
			}
		})
	}
}

// TestUnplacedClaimUnderSchedules creates the missing object at the time of a retry, under schedules
// that delay caches.
func TestUnplacedClaimUnderSchedules(t *testing.T) {
	for _, c := range unplacedCases() {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(200) {
				w := c.world(t, sim.NewSeeded(seed))
				w.create(c.claim.DeepCopy())
				user := w.Host.Process("user")
				user.User("", func(context.Context) {
					user.Sleep(3 * time.Second) // the second retry
					c.supply(w)
				})
				w.Run()
				if len(w.volumes()) != c.volumes {
					t.Fatalf("seed %d: %d volumes, want %d; events %q", seed, len(w.volumes()), c.volumes, w.events())
				}
			}
		})
	}
}
