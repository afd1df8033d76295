package provisioner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/provisioner"
)

// provisioned is a world with one bound claim "data".
func provisioned(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Run()
	if len(w.volumes()) != 1 || w.volumes()[0].Status.Phase != corev1.VolumeBound {
		t.Fatalf("volumes %v, want one that is bound", w.volumes())
	}
	return w
}

func (w *world) wantNothingLeft() {
	w.Helper()
	if len(w.volumes()) != 0 || len(w.array.Volumes()) != 0 {
		w.Errorf("left: %v %v\n%s", w.volumes(), w.array.Volumes(), w.Host.Log().Text())
	}
}

func TestReleasedVolumeIsDeleted(t *testing.T) {
	w := provisioned(t)
	w.delete("data")
	w.Run()
	w.wantNothingLeft()
}

func TestDeletionIsSafeToRepeat(t *testing.T) {
	lost := errors.New("the server was not able to answer")
	for name, script := range map[string]func(*world){
		"driver, before": func(w *world) { w.conn.Faults = []scripted.Fault{{Method: "DeleteVolume", Code: codes.Internal}} },
		"driver, after":  func(w *world) { w.conn.Faults = []scripted.Fault{{Method: "DeleteVolume", After: true}} },
		"delete, before": func(w *world) { w.api.Faults = []scripted.RequestFault{{Verb: "delete", Err: lost}} },
		"delete, after":  func(w *world) { w.api.Faults = []scripted.RequestFault{{Verb: "delete", Err: lost, After: true}} },
		"finalizer, twice": func(w *world) {
			w.api.Faults = []scripted.RequestFault{{Verb: "patch", Err: lost}, {Verb: "patch", Err: lost}}
		},
		"finalizer, after": func(w *world) { w.api.Faults = []scripted.RequestFault{{Verb: "patch", Err: lost, After: true}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := provisioned(t)
			script(w)
			w.delete("data")
			w.Run()
			w.wantNothingLeft()
			if n := w.conn.Count("DeleteVolume"); n < 2 && name != "finalizer, after" {
				t.Errorf("DeleteVolume called %d times, want a second time", n)
			}
		})
	}
}

func TestFailedDeletionIsTold(t *testing.T) {
	w := provisioned(t)
	w.conn.Faults = []scripted.Fault{{Method: "DeleteVolume", Code: codes.Internal}}
	w.delete("data")
	w.Run()
	events := w.events()
	if got, want := events[len(events)-1], "VolumeFailedDelete: rpc error: code = Internal desc = scripted"; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

func TestAttachedVolumeIsDeletedWhenTheAttachmentGoes(t *testing.T) {
	w := provisioned(t)
	volume := w.volumes()[0]
	attachments := w.User.StorageV1().VolumeAttachments()
	testcheck.Must(attachments.Create(context.Background(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va"},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverName, NodeName: "node-1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume.Name},
		},
	}, metav1.CreateOptions{}))
	w.delete("data")
	w.Run()
	if len(w.array.Volumes()) != 1 || w.conn.Count("DeleteVolume") != 0 {
		t.Errorf("the volume was deleted while an attachment names it")
	}
	events := w.events()
	want := "VolumeFailedDelete: persistentvolume " + volume.Name + " is still attached to node node-1"
	if got := events[len(events)-1]; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	if err := attachments.Delete(context.Background(), "va", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Run()
	w.wantNothingLeft()
}

func TestFinalizerFollowsTheReclaimPolicy(t *testing.T) {
	w := newWorld(t, nil)
	ready := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "ready-made"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Namespace: "default", Name: "data"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: "vol-0",
			}},
		},
	}
	claim := newClaim("data", "")
	claim.Spec.VolumeName = "ready-made"
	ready.Spec.ClaimRef.UID = w.create(claim).UID
	volumes := w.User.CoreV1().PersistentVolumes()
	testcheck.Must(volumes.Create(context.Background(), ready, metav1.CreateOptions{}))
	w.Run()
	both := []string{"kubernetes.io/pv-protection", provisioner.ProvisionedFinalizer}
	if diff := cmp.Diff(both, w.volumes()[0].Finalizers); diff != "" {
		t.Errorf("finalizers when bound (-want +got):\n%s", diff)
	}
	testcheck.Must(volumes.Patch(context.Background(), "ready-made", types.MergePatchType,
		[]byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), metav1.PatchOptions{}))
	w.Run()
	if diff := cmp.Diff(both[:1], w.volumes()[0].Finalizers); diff != "" {
		t.Errorf("finalizers with Retain (-want +got):\n%s", diff)
	}
	w.delete("data")
	w.Run()
	if w.conn.Count("DeleteVolume") != 0 || len(w.volumes()) != 1 {
		t.Errorf("a volume with policy Retain was deleted")
	}
}

// I9: an object of the same name that came meanwhile is not the one whose volume was deleted.
func TestAnotherVolumeOfTheNameIsLeftAlone(t *testing.T) {
	w := provisioned(t)
	volume := w.volumes()[0]
	deleted := false
	w.conn.Answer = func(method string, _ any) {
		if method != "DeleteVolume" || deleted {
			return
		}
		deleted = true
		volumes := w.Server.Client(testworld.ImmediateCaller(w.Host.Now)).CoreV1().PersistentVolumes()
		testcheck.Must(volumes.Patch(context.Background(), volume.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
		if err := volumes.Delete(context.Background(), volume.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		again := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume.Name}, Spec: *volume.Spec.DeepCopy()}
		again.Spec.ClaimRef = nil
		testcheck.Must(volumes.Create(context.Background(), again, metav1.CreateOptions{}))
	}
	w.delete("data")
	w.Run()
	if len(w.volumes()) != 1 || w.volumes()[0].DeletionTimestamp != nil || w.volumes()[0].UID == volume.UID {
		t.Errorf("volumes %v, want the other one of the name, untouched", w.volumes())
	}
}

func TestFinalizerOfAnotherVolumeOfTheNameIsLeftAlone(t *testing.T) {
	w := provisioned(t)
	volume := w.volumes()[0]
	w.api.Before = func(verb string) {
		if verb != "patch" {
			return
		}
		w.api.Before = nil
		volumes := w.Server.Client(testworld.ImmediateCaller(w.Host.Now)).CoreV1().PersistentVolumes()
		testcheck.Must(volumes.Patch(context.Background(), volume.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
		again := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume.Name, Finalizers: []string{provisioner.ProvisionedFinalizer}}}
		again.Spec = *volume.Spec.DeepCopy()
		again.Spec.ClaimRef = nil
		testcheck.Must(volumes.Create(context.Background(), again, metav1.CreateOptions{}))
	}
	w.delete("data")
	w.Run()
	if len(w.volumes()) != 1 || len(w.volumes()[0].Finalizers) != 2 {
		t.Errorf("volumes %v, want the other one of the name, with both finalizers", w.volumes())
	}
}
