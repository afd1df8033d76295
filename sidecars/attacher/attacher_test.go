package attacher_test

import (
	"context"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

var ignoreServerFields = cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp", "Generation")

func TestAttach(t *testing.T) {
	w := newWorld(t, nil)
	w.node("node-1", "id-1")
	handle := w.volume("vol")
	w.attach("va", "vol", "node-1")
	w.Run()

	volumeName := "vol"
	want := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "va",
			Annotations: map[string]string{"csi.alpha.kubernetes.io/node-id": "id-1"},
			Finalizers:  []string{"external-attacher/array-csi-volsim-dev"},
		},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: array.DriverName, NodeName: "node-1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volumeName},
		},
		Status: storagev1.VolumeAttachmentStatus{
			Attached: true, AttachmentMetadata: map[string]string{"disk": handle},
		},
	}
	if diff := cmp.Diff(want, w.attachment("va"), ignoreServerFields); diff != "" {
		t.Errorf("VolumeAttachment (-want +got):\n%s", diff)
	}
	finalizers := []string{"kubernetes.io/pv-protection", "external-attacher/array-csi-volsim-dev"}
	if diff := cmp.Diff(finalizers, w.get("vol").Finalizers); diff != "" {
		t.Errorf("finalizers of the PersistentVolume (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"id-1"}, w.array.Volumes()[0].AttachedTo); diff != "" {
		t.Errorf("attached to (-want +got):\n%s", diff)
	}
	request := &csispec.ControllerPublishVolumeRequest{
		VolumeId: handle, NodeId: "id-1", VolumeContext: map[string]string{"k": "v"},
		VolumeCapability: &csispec.VolumeCapability{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{
				FsType: "ext4", MountFlags: []string{"noatime"},
			}},
		},
	}
	if diff := cmp.Diff(request, w.conn.Calls[len(w.conn.Calls)-1].Request, protocmp.Transform()); diff != "" {
		t.Errorf("ControllerPublishVolume (-want +got):\n%s", diff)
	}
	if n := w.conn.Count("ControllerPublishVolume"); n != 1 {
		t.Errorf("ControllerPublishVolume called %d times, want 1", n)
	}
}

func TestDetach(t *testing.T) {
	for _, nodeGone := range []bool{false, true} {
		w := newWorld(t, nil)
		w.node("node-1", "id-1")
		w.volume("vol")
		w.attach("va", "vol", "node-1")
		w.Run()
		if nodeGone {
			w.NoError(w.User.StorageV1().CSINodes().Delete(context.Background(), "node-1", metav1.DeleteOptions{}))
			w.Run()
		}
		w.detach("va")
		w.Run()
		if w.attachment("va") != nil || len(w.array.Volumes()[0].AttachedTo) != 0 {
			t.Errorf("node gone: %v: left: %v %v", nodeGone, w.attachment("va"), w.array.Volumes())
		}
		if n := w.conn.Count("ControllerUnpublishVolume"); n != 1 {
			t.Errorf("node gone: %v: ControllerUnpublishVolume called %d times, want 1", nodeGone, n)
		}
		if !w.Host.Now().Equal(sim.Epoch) {
			t.Errorf("node gone: %v: something was tried again, though nothing failed", nodeGone)
		}
	}
}

// Another finalizer keeps the object: the status then states that the volume is detached.
func TestDetachedIsReportedWhileTheObjectStays(t *testing.T) {
	w := newWorld(t, nil)
	w.node("node-1", "id-1")
	w.volume("vol")
	w.attach("va", "vol", "node-1")
	w.Run()
	w.patchAttachment(`{"metadata":{"finalizers":["external-attacher/array-csi-volsim-dev","example.com/mine"]}}`)
	w.detach("va")
	w.Run()
	va := w.attachment("va")
	if va == nil || va.Status.Attached || va.Status.AttachmentMetadata != nil || len(va.Finalizers) != 1 {
		t.Errorf("VolumeAttachment %v, want it detached, with one finalizer", va)
	}
	w.patchAttachment(`{"metadata":{"annotations":{"a":"b"}}}`)
	w.Run()
	if n := w.conn.Count("ControllerUnpublishVolume"); n != 1 {
		t.Errorf("ControllerUnpublishVolume called %d times, want 1: it is detached", n)
	}
}

func TestErrorsAreRecordedAndTriedAgainWithBackoff(t *testing.T) {
	w := newWorld(t, nil)
	w.node("node-1", "id-1")
	w.volume("vol")
	attachFault := scripted.Fault{Method: "ControllerPublishVolume", Code: codes.Internal}
	w.conn.Faults = []scripted.Fault{attachFault, attachFault, attachFault, attachFault}
	w.attach("va", "vol", "node-1")
	// As upstream, the second call comes at once: the finalizer that the first one wrote is a change worth a look. The
	// error that each writes is not.
	for n, want := range []time.Duration{0, 0, time.Second, 2 * time.Second} {
		w.Until("another call", func() bool { return w.conn.Count("ControllerPublishVolume") == n+1 })
		if got := w.Host.Now().Sub(sim.Epoch); got != want {
			t.Errorf("call %d at %s, want %s", n+1, got, want)
		}
	}
	w.Until("the error", func() bool { return w.attachment("va").Status.AttachError.Time.After(sim.Epoch.Add(time.Second)) })
	code := int32(codes.Internal)
	want := &storagev1.VolumeError{
		Message: "rpc error: code = Internal desc = scripted", ErrorCode: &code, Time: metav1.NewTime(sim.Epoch.Add(2 * time.Second)),
	}
	if diff := cmp.Diff(want, w.attachment("va").Status.AttachError); diff != "" {
		t.Errorf("attachError (-want +got):\n%s", diff)
	}
	w.Run()
	if va := w.attachment("va"); !va.Status.Attached || va.Status.AttachError != nil {
		t.Errorf("status %v, want it attached, without an error", va.Status)
	}
	w.conn.Faults = []scripted.Fault{{Method: "ControllerUnpublishVolume", Code: codes.Unavailable, After: true}}
	w.detach("va")
	w.Until("the error", func() bool { return w.attachment("va").Status.DetachError != nil })
	if got := w.attachment("va").Status.DetachError.Message; got != "rpc error: code = Unavailable desc = scripted" {
		t.Errorf("detachError %q", got)
	}
	w.Run()
	if w.attachment("va") != nil {
		t.Errorf("left: %v", w.attachment("va"))
	}
}

func TestWhatCannotBeAttached(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*world)
		message string
	}{
		{"volume that is not there", func(w *world) { w.node("node-1", "id-1") }, `persistentvolume "vol" not found`},
		{"node that is not there", func(w *world) { w.volume("vol") }, `csinode.storage.k8s.io "node-1" not found`},
		{
			"node without the driver", func(w *world) {
				w.volume("vol")
				testcheck.Must(w.User.StorageV1().CSINodes().Create(context.Background(),
					&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{}))
			},
			"CSINode node-1 does not contain driver " + array.DriverName,
		},
		{
			"volume that is being deleted", func(w *world) {
				w.node("node-1", "id-1")
				w.volume("vol")
				w.NoError(w.User.CoreV1().PersistentVolumes().Delete(context.Background(), "vol", metav1.DeleteOptions{}))
			},
			`PersistentVolume "vol" is marked for deletion`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			test.prepare(w)
			w.attach("va", "vol", "node-1")
			w.Until("the error", func() bool { return w.attachment("va").Status.AttachError != nil })
			if got := w.attachment("va").Status.AttachError.Message; got != test.message {
				t.Errorf("attachError %q, want %q", got, test.message)
			}
			if len(w.attachment("va").Finalizers) != 0 {
				t.Errorf("finalizers %v, want none: nothing was attached", w.attachment("va").Finalizers)
			}
		})
	}
}

func TestVolumeIsKeptWhileAttachmentsNameIt(t *testing.T) {
	w := newWorld(t, nil)
	w.node("node-1", "id-1")
	w.volume("vol")
	w.attach("va", "vol", "node-1")
	w.Run()
	w.NoError(w.User.CoreV1().PersistentVolumes().Delete(context.Background(), "vol", metav1.DeleteOptions{}))
	testcheck.Must(w.User.CoreV1().PersistentVolumes().Patch(context.Background(), "vol", types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`), metav1.PatchOptions{}))
	w.Run()
	if w.get("vol") == nil {
		t.Fatal("the PersistentVolume went while an attachment names it")
	}
	w.detach("va")
	w.Run()
	if w.get("vol") != nil || w.attachment("va") != nil {
		t.Errorf("left: %v %v", w.get("vol"), w.attachment("va"))
	}
}

func TestDriverThatDoesNotPublishHasAllAttached(t *testing.T) {
	w := newWorld(t, nil)
	w.conn.Answer = func(_ string, reply any) {
		if r, ok := reply.(*csispec.ControllerGetCapabilitiesResponse); ok {
			r.Capabilities = nil
		}
	}
	w.volume("vol")
	w.attach("va", "vol", "node-1")
	w.Run()
	va := w.attachment("va")
	if !va.Status.Attached || va.Status.AttachmentMetadata != nil || len(va.Finalizers) != 0 || w.conn.Count("ControllerPublishVolume") != 0 {
		t.Errorf("VolumeAttachment %v, %d calls; want it attached, without finalizer or call", va, w.conn.Count("ControllerPublishVolume"))
	}
	w.detach("va")
	w.Run()
	if w.attachment("va") != nil {
		t.Errorf("left: %v", w.attachment("va"))
	}
}

func TestFinalizerName(t *testing.T) {
	for driver, want := range map[string]string{
		"array.csi.volsim.dev": "external-attacher/array-csi-volsim-dev",
		"a_B-9.":               "external-attacher/a-B-9-X",
	} {
		if got := attacher.FinalizerName(driver); got != want {
			t.Errorf("FinalizerName(%q) = %q, want %q", driver, got, want)
		}
	}
}
