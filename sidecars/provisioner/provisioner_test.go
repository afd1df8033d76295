package provisioner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

var ignoreServerFields = cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp", "Generation")

func TestProvisionMakesTheVolumeAndItsObject(t *testing.T) {
	w := newWorld(t, nil)
	class := newClass("fast", storagev1.VolumeBindingImmediate)
	class.Parameters = map[string]string{"csi.storage.k8s.io/fstype": "xfs", "tier": "gold"}
	class.MountOptions = []string{"noatime"}
	w.class(class)
	claim := w.create(newClaim("data", "fast"))
	w.Run()

	name := "pvc-" + string(claim.UID)
	mode := csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	request := &csispec.CreateVolumeRequest{
		Name:          name,
		CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30},
		Parameters:    map[string]string{"tier": "gold"},
		VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: mode},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{
				FsType: "xfs", MountFlags: []string{"noatime"},
			}},
		}},
	}
	if diff := cmp.Diff(request, w.conn.Calls[1].Request, protocmp.Transform()); diff != "" {
		t.Errorf("CreateVolume (-want +got):\n%s", diff)
	}
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Annotations: map[string]string{
				"pv.kubernetes.io/provisioned-by":                            driverName,
				"volume.kubernetes.io/provisioner-deletion-secret-name":      "",
				"volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
			},
			Finalizers: []string{provisioner.ProvisionedFinalizer, "kubernetes.io/pv-protection"},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "data",
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			MountOptions:                  []string{"noatime"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: w.array.Volumes()[0].ID, FSType: "xfs",
				VolumeAttributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "volsim-" + driverName},
			}},
			StorageClassName: "fast",
			VolumeMode:       ptr(corev1.PersistentVolumeFilesystem),
		},
	}
	if len(w.volumes()) != 1 {
		t.Fatalf("%d PersistentVolumes, want 1", len(w.volumes()))
	}
	if diff := cmp.Diff(want, w.volumes()[0], ignoreServerFields, cmpopts.IgnoreFields(corev1.PersistentVolume{}, "Status")); diff != "" {
		t.Errorf("PersistentVolume (-want +got):\n%s", diff)
	}
	events := []string{
		`Provisioning: External provisioner is provisioning volume for claim "default/data"`,
		"ProvisioningSucceeded: Successfully provisioned volume " + name,
	}
	if diff := cmp.Diff(events, w.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := w.conn.Count("CreateVolume"); n != 1 {
		t.Errorf("CreateVolume called %d times, want 1", n)
	}
}

func TestFirstConsumerIsWaitedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	w.create(newClaim("data", "late"))
	w.Run()
	if n := w.conn.Count("CreateVolume"); n != 0 {
		t.Fatalf("CreateVolume called %d times before a node was chosen", n)
	}
	w.selectNode("data", "node-1")
	w.Run()
	if len(w.volumes()) != 1 || w.claim("data").Spec.VolumeName == "" {
		t.Errorf("volumes %v, claim %v: want both bound", w.volumes(), w.claim("data"))
	}
}

func (w *world) selectNode(claim, node string) {
	w.Helper()
	w.patch(claim, `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"`+node+`"}}}`)
}

// touch changes a claim in a way that means nothing.
func (w *world) touch(claim string) {
	w.Helper()
	w.patch(claim, `{"metadata":{"annotations":{"touched":"yes"}}}`)
}

func (w *world) patch(claim, patch string) {
	w.Helper()
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").
		Patch(context.Background(), claim, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

func TestClassThatComesLaterIsWaitedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newClaim("data", "fast"))
	w.Run()
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.Run()
	if len(w.volumes()) != 1 {
		t.Errorf("%d PersistentVolumes after the class came, want 1", len(w.volumes()))
	}
}

func TestFailuresAreTriedAgain(t *testing.T) {
	for _, code := range []codes.Code{
		codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Internal, codes.ResourceExhausted,
	} {
		for _, after := range []bool{false, true} {
			fault := scripted.Fault{Method: "CreateVolume", Code: code, After: after}
			w := newWorld(t, nil)
			w.conn.Faults = []scripted.Fault{fault, fault}
			w.class(newClass("fast", storagev1.VolumeBindingImmediate))
			w.create(newClaim("data", "fast"))
			w.Run()
			if len(w.volumes()) != 1 || len(w.array.Volumes()) != 1 || w.conn.Count("CreateVolume") != 3 {
				t.Errorf("%+v: %d PersistentVolumes, %d volumes, %d calls; want 1, 1, 3",
					fault, len(w.volumes()), len(w.array.Volumes()), w.conn.Count("CreateVolume"))
			}
			if got := w.Host.Now().Sub(sim.Epoch); got != 3*time.Second {
				t.Errorf("%+v: took %s, want a back-off of 1 s and 2 s", fault, got)
			}
		}
	}
}

func TestInfeasibleClaimIsTriedAgainLateOrWithAnotherClass(t *testing.T) {
	w := newWorld(t, nil)
	fault := scripted.Fault{Method: "CreateVolume", Code: codes.InvalidArgument}
	w.conn.Faults = []scripted.Fault{fault, fault}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Until("the first call", func() bool { return w.conn.Count("CreateVolume") == 1 })
	w.touch("data")
	w.Until("the second call", func() bool { return w.conn.Count("CreateVolume") == 2 })
	if got := w.Host.Now().Sub(sim.Epoch); got != 5*time.Minute {
		t.Errorf("second call at %s, want 5m0s", got)
	}
	w.Until("the event", func() bool { return len(w.events()) == 2 })
	const text = "ProvisioningFailed: Volume provisioning failed with infeasible error. Retries will be delayed. " +
		"rpc error: code = InvalidArgument desc = scripted"
	if got := w.events()[1]; got != text {
		t.Errorf("event %q, want %q", got, text)
	}
	w.NoError(w.User.StorageV1().StorageClasses().Delete(context.Background(), "fast", metav1.DeleteOptions{}))
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.Until("the third call", func() bool { return w.conn.Count("CreateVolume") == 3 })
	if got := w.Host.Now().Sub(sim.Epoch); got != 5*time.Minute {
		t.Errorf("third call, with another class, at %s, want 5m0s", got)
	}
}

func TestNoRoomGivesTheNodeBack(t *testing.T) {
	w := newWorld(t, nil)
	w.conn.Faults = []scripted.Fault{{Method: "CreateVolume", Code: codes.ResourceExhausted}}
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	claim := newClaim("data", "late")
	claim.Annotations["volume.kubernetes.io/selected-node"] = "node-1"
	w.create(claim)
	w.Run()
	if node, ok := w.claim("data").Annotations["volume.kubernetes.io/selected-node"]; ok || len(w.volumes()) != 0 {
		t.Errorf("selected-node %q, %d volumes; want neither", node, len(w.volumes()))
	}
	w.selectNode("data", "node-2")
	w.Run()
	if len(w.volumes()) != 1 {
		t.Errorf("%d volumes after another node was chosen, want 1", len(w.volumes()))
	}
}

// I11: whatever becomes of the claim while a call may have had its effect, nothing is left in the end.
func TestClaimThatGoesDuringTimeoutsLeaksNothing(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newWorld(t, nil)
		fault := scripted.Fault{Method: "CreateVolume", Code: codes.DeadlineExceeded, After: after}
		w.conn.Faults = []scripted.Fault{fault, fault, fault}
		w.class(newClass("fast", storagev1.VolumeBindingImmediate))
		w.create(newClaim("data", "fast"))
		w.Until("the second call", func() bool { return w.conn.Count("CreateVolume") == 2 })
		w.delete("data")
		w.Run()
		if w.conn.Count("CreateVolume") != 4 {
			t.Errorf("CreateVolume called %d times, want 4: its outcome was not known before", w.conn.Count("CreateVolume"))
		}
		if len(w.volumes()) != 0 || len(w.array.Volumes()) != 0 || w.claim("data") != nil {
			t.Errorf("left: %v %v %v", w.volumes(), w.array.Volumes(), w.claim("data"))
		}
	}
}

// Upstream forgets the attempt here, and the volume leaks.
func TestClaimBoundElsewhereDuringTimeoutsLeaksNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.conn.Faults = []scripted.Fault{{Method: "CreateVolume", Code: codes.DeadlineExceeded, After: true}}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Until("the first call", func() bool { return w.conn.Count("CreateVolume") == 1 })
	w.patch("data", `{"spec":{"volumeName":"elsewhere"},"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}}}`)
	w.Run()
	if len(w.volumes()) != 0 || len(w.array.Volumes()) != 0 {
		t.Errorf("left: %v %v", w.volumes(), w.array.Volumes())
	}
}

func TestVolumeIsSavedHoweverLongItTakes(t *testing.T) {
	gone := errors.New("the server was not able to answer")
	for name, faults := range map[string][]scripted.RequestFault{
		"conflict":       {{Verb: "create", Err: apierrors.NewConflict(corev1.Resource("persistentvolumes"), "x", gone)}},
		"timeout":        {{Verb: "create", Err: gone}, {Verb: "create", Err: gone}, {Verb: "create", Err: gone}},
		"timeout, saved": {{Verb: "create", Err: gone, After: true}, {Verb: "create", Err: gone, After: true}},
	} {
		w := newWorld(t, nil)
		w.api.Faults = faults
		w.class(newClass("fast", storagev1.VolumeBindingImmediate))
		w.create(newClaim("data", "fast"))
		w.Run()
		if len(w.volumes()) != 1 || w.conn.Count("CreateVolume") != 1 || w.conn.Count("DeleteVolume") != 0 {
			t.Errorf("%s: %d volumes, %d CreateVolume, %d DeleteVolume; want 1, 1, 0",
				name, len(w.volumes()), w.conn.Count("CreateVolume"), w.conn.Count("DeleteVolume"))
		}
		if w.claim("data").Spec.VolumeName == "" {
			t.Errorf("%s: the claim is not bound", name)
		}
	}
}

func TestTooSmallVolumeIsDeletedAndAskedForAgain(t *testing.T) {
	w := newWorld(t, nil)
	small := true
	w.conn.Answer = func(_ string, reply any) {
		if r, ok := reply.(*csispec.CreateVolumeResponse); ok && small {
			r.Volume.CapacityBytes, small = 1<<20, false
		}
	}
	w.conn.Faults = []scripted.Fault{{Method: "DeleteVolume", Code: codes.FailedPrecondition}}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Run()
	if w.conn.Count("DeleteVolume") != 2 || w.conn.Count("CreateVolume") != 2 || len(w.volumes()) != 1 {
		t.Errorf("%d DeleteVolume, %d CreateVolume, %d volumes; want 2, 2, 1",
			w.conn.Count("DeleteVolume"), w.conn.Count("CreateVolume"), len(w.volumes()))
	}
}

// The error of the cleanup must not pass for the outcome of CreateVolume.
func TestTooSmallVolumeThatCannotBeDeletedAtOnceLeaksNothing(t *testing.T) {
	w := newWorld(t, nil)
	small := true
	w.conn.Answer = func(_ string, reply any) {
		if r, ok := reply.(*csispec.CreateVolumeResponse); ok && small {
			r.Volume.CapacityBytes, small = 1<<20, false
		}
	}
	for range 5 {
		w.conn.Faults = append(w.conn.Faults, scripted.Fault{Method: "DeleteVolume", Code: codes.FailedPrecondition})
	}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Until("the last cleanup", func() bool { return w.conn.Count("DeleteVolume") == 5 })
	w.patch("data", `{"metadata":{"finalizers":null}}`)
	w.delete("data") // at once: nothing protects it
	w.Run()
	w.wantNothingLeft()
}

func TestUnknownSizeIsTheRequestedOne(t *testing.T) {
	w := newWorld(t, nil)
	w.conn.Answer = func(_ string, reply any) {
		if r, ok := reply.(*csispec.CreateVolumeResponse); ok {
			r.Volume.CapacityBytes = 0
		}
	}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Run()
	if got := w.volumes()[0].Spec.Capacity[corev1.ResourceStorage]; got.Value() != 1<<30 {
		t.Errorf("capacity %s, want 1Gi", got.String())
	}
}
