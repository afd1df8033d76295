package csi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// attacherFinalizer is the finalizer by which an attacher delays the deletion of an attachment.
const attacherFinalizer = "external-attacher/csi-example-com"

// attaching returns a world with a controller and a volume.
func attaching(t *testing.T, handle string) *disk {
	t.Helper()
	w := newWorld(t)
	w.driver = "csi.example.com"
	w.persistent(persistent("pv", w.driver, handle))
	w.Run()
	return w.volume(handle)
}

// persistent returns a PersistentVolume.
func (w *world) persistent(v *corev1.PersistentVolume) {
	w.Helper()
	_, err := w.User.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
	w.NoError(err)
}

func (d *disk) attach(ctx context.Context) error {
	path, err := d.plugin.Attach(ctx, d.spec, node1)
	testcheck.Equal(d, "device path", "", path)
	return err
}

// detach detaches the volume by its name, as the controller does once the volume no longer exists.
func (d *disk) detach(ctx context.Context) error {
	name, err := d.plugin.VolumeName(d.spec)
	d.NoError(err)
	return d.plugin.Detach(ctx, name, node1)
}

// removeAttachment deletes the VolumeAttachment and removes its finalizers, as an attacher does
// after detaching.
func (d *disk) removeAttachment() {
	d.Helper()
	attachments := d.User.StorageV1().VolumeAttachments()
	err := attachments.Delete(context.Background(), d.attachmentName(d.handle), metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		d.NoError(err)
	}
	if a := d.stored(d.handle); a != nil {
		a.Finalizers = nil
		_, err := attachments.Update(context.Background(), a, metav1.UpdateOptions{})
		d.NoError(err)
	}
}

func attached(a *storagev1.VolumeAttachment) { a.Status.Attached = true }

func held(a *storagev1.VolumeAttachment) { a.Finalizers = []string{attacherFinalizer} }

func (d *disk) ended(o *operation, want bool) {
	d.Helper()
	if o.done != want {
		d.Fatalf("the operation has ended: %v, want %v (%v)", o.done, want, o.err)
	}
}

// told checks that an operation failed with a message for an event.
func (d *disk) told(o *operation, want string) {
	d.Helper()
	d.ended(o, true)
	if o.err == nil {
		d.Fatalf("no error, want %q", want)
	}
	testcheck.Equal(d, "message", want, o.err.Error())
}

func TestAttach(t *testing.T) {
	t.Parallel()
	tests := []struct {
		handle string
		name   string // of the VolumeAttachment; hex(sha256(handle + driver + node))
	}{
		{"vol-1", "csi-b74c7fc125891ffa0d0f2e0d645733e3fae7fba3066e76500a771ea08be9da28"},
		{"vol^1/a b", "csi-500b490900949ec94300dc19da32cb8ef6645200a67fe68566f5e4142a59773a"},
	}
	for _, tt := range tests {
		t.Run(tt.handle, func(t *testing.T) {
			t.Parallel()
			d := attaching(t, tt.handle)
			o := d.begin(d.attach)
			d.NoError(d.Host.Wait(t.Context(), "attachment", func() bool { return d.stored(tt.handle) != nil }))
			pv := "pv"
			want := &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: tt.name},
				Spec: storagev1.VolumeAttachmentSpec{
					Attacher: "csi.example.com", NodeName: node1, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
				},
			}
			testcheck.Equal(d, "attachment", want, d.stored(tt.handle),
				cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp"))
			d.ended(o, false)
			d.change(tt.handle, attached)
			d.Run()
			d.ended(o, true)
			d.NoError(o.err)
			testcheck.Equal(d, "requests", []string{"create"}, d.calls(trace.KindAPI))

			o = d.begin(d.detach)
			d.Run()
			d.ended(o, true)
			d.NoError(o.err)
			testcheck.Equal(d, "requests", []string{"create", "delete"}, d.calls(trace.KindAPI))
			if d.stored(tt.handle) != nil {
				t.Error("the attachment is still there")
			}
			testcheck.Equal(d, "time", sim.Epoch, d.Host.Now())
		})
	}
}

func TestAttachAttachedVolume(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	d.attachment("vol-1", attached)
	d.Run()
	d.NoError(d.do(d.attach))
	testcheck.Equal(d, "requests", nil, d.calls(trace.KindAPI))
}

// TestAttachFindsExistingAttachment has the attachment appear between the lookup and the creation.
func TestAttachFindsExistingAttachment(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	o := d.begin(d.attach)
	d.upTo("api create volumeattachments")
	d.attachment("vol-1", attached)
	d.Run()
	d.ended(o, true)
	d.NoError(o.err)
	testcheck.Equal(d, "requests", []string{"create!"}, d.calls(trace.KindAPI))
}

func TestAttachFails(t *testing.T) {
	t.Parallel()
	broken := func(a *storagev1.VolumeAttachment) {
		a.Status.AttachError = &storagev1.VolumeError{Message: "no such disk"}
	}
	tests := []struct {
		name string
		do   func(d *disk) // when the attachment is there
		want string
	}{
		{"the attacher says so", func(d *disk) { d.change("vol-1", broken) }, "no such disk"},
		{"deleted meanwhile", func(d *disk) {
			d.run0() // let it be seen
			d.removeAttachment()
		}, "volume attachment has been deleted"},
		{"being deleted", func(d *disk) {
			a := d.stored("vol-1")
			held(a)
			_, err := d.User.StorageV1().VolumeAttachments().Update(context.Background(), a, metav1.UpdateOptions{})
			d.NoError(err)
			d.NoError(d.User.StorageV1().VolumeAttachments().Delete(context.Background(), a.Name, metav1.DeleteOptions{}))
		}, "volume attachment is being deleted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := attaching(t, "vol-1")
			o := d.begin(d.attach)
			d.NoError(d.Host.Wait(t.Context(), "attachment", func() bool { return d.stored("vol-1") != nil }))
			tt.do(d)
			d.Run()
			d.told(o, tt.want)
			testcheck.Equal(d, "time", sim.Epoch, d.Host.Now())
		})
	}
}

// run0 runs everything that needs no time to pass.
func (w *world) run0() {
	w.Helper()
	w.NoError(w.Host.Wait(context.Background(), "nothing to do now", func() bool { return len(w.Host.Enabled()) == 0 }))
}

// TestAttachRejected has the API server reject the attachment.
func TestAttachRejected(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	d.spec.PersistentVolume.Spec.CSI.Driver = "not a driver"
	if err := d.do(d.attach); !apierrors.IsInvalid(errors.Unwrap(err)) {
		t.Errorf("error %v, want the refusal", err)
	}
}

func TestAttachTimesOut(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	o := d.begin(d.attach)
	d.Run()
	d.told(o, "timed out waiting for external-attacher of csi.example.com CSI driver to attach volume vol-1")
	testcheck.Equal(d, "time passed", 2*time.Minute, d.Host.Now().Sub(sim.Epoch))
	if d.stored("vol-1") == nil {
		t.Error("the attachment is deleted: the attacher may still act on it")
	}
	// A retry finds the existing object.
	o = d.begin(d.attach)
	d.run0()
	d.change("vol-1", attached)
	d.Run()
	d.ended(o, true)
	d.NoError(o.err)
	testcheck.Equal(d, "requests", []string{"create"}, d.calls(trace.KindAPI))
	testcheck.Equal(d, "time passed", 2*time.Minute, d.Host.Now().Sub(sim.Epoch))
}

// TestAttachIgnoresOtherAttachments attaches one that differs in one field.
func TestAttachIgnoresOtherAttachments(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]attachTarget{
		"of another handle": {"csi.example.com", "vol-2", node1},
		"of another driver": {"other.example.com", "vol-1", node1},
		"on another node":   {"csi.example.com", "vol-1", "node-2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := attaching(t, "vol-1")
			d.persistent(persistent("another", another.driver, another.handle))
			attachments, volume := d.User.StorageV1().VolumeAttachments(), "another"
			a, err := attachments.Create(context.Background(), &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName(another.handle, another.driver, another.node)},
				Spec: storagev1.VolumeAttachmentSpec{
					Attacher: another.driver, NodeName: string(another.node),
					Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
				},
			}, metav1.CreateOptions{})
			d.NoError(err)
			attached(a)
			_, err = attachments.UpdateStatus(context.Background(), a, metav1.UpdateOptions{})
			d.NoError(err)
			o := d.begin(d.attach)
			d.run0()
			d.ended(o, false)
			d.Run()
			d.told(o, "timed out waiting for external-attacher of csi.example.com CSI driver to attach volume vol-1")
		})
	}
}

// attachTarget is a volume on a node.
type attachTarget struct {
	driver, handle string
	node           types.NodeName
}

func TestDetachWaitsForTheAttacher(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	d.attachment("vol-1", func(a *storagev1.VolumeAttachment) { held(a); attached(a) })
	d.Run()
	o := d.begin(d.detach)
	d.run0()
	d.ended(o, false)
	if a := d.stored("vol-1"); a.DeletionTimestamp == nil {
		t.Error("the attachment is not to be deleted")
	}
	d.removeAttachment()
	d.Run()
	d.ended(o, true)
	d.NoError(o.err)
	testcheck.Equal(d, "time", sim.Epoch, d.Host.Now())
}

func TestDetachFails(t *testing.T) {
	t.Parallel()
	t.Run("the attacher says so", func(t *testing.T) {
		t.Parallel()
		d := attaching(t, "vol-1")
		d.attachment("vol-1", held)
		d.Run()
		o := d.begin(d.detach)
		d.run0()
		d.change("vol-1", func(a *storagev1.VolumeAttachment) { a.Status.DetachError = &storagev1.VolumeError{Message: "stuck"} })
		d.Run()
		d.told(o, "stuck")
		d.removeAttachment()
		d.Run()
		d.NoError(d.do(d.detach))
	})
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		d := attaching(t, "vol-1")
		d.attachment("vol-1", held)
		d.Run()
		o := d.begin(d.detach)
		d.Run()
		d.told(o, "timed out waiting for external-attacher of csi.example.com CSI driver to detach volume vol-1")
		testcheck.Equal(d, "time passed", 2*time.Minute, d.Host.Now().Sub(sim.Epoch))
	})
	t.Run("not a volume's name", func(t *testing.T) {
		t.Parallel()
		d := attaching(t, "vol-1")
		for _, name := range []string{"", "vol-1", "^vol-1", "csi.example.com^"} {
			if err := d.do(func(ctx context.Context) error { return d.plugin.Detach(ctx, name, node1) }); err == nil {
				t.Errorf("detach %q: no error", name)
			}
		}
		testcheck.Equal(d, "requests", nil, d.calls(trace.KindAPI))
	})
}

func TestDetachDetachedVolume(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	d.NoError(d.do(d.detach))
	testcheck.Equal(d, "requests", []string{"get!"}, d.calls(trace.KindAPI))
}
