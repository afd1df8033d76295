package addiff

import (
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins/csi"
)

// An attacher answers VolumeAttachments. It retries failed calls each time it runs.
type attacher struct {
	outcome map[string]string                // by verb, "attach" or "detach"
	since   map[types.UID]map[bool]time.Time // time at which the object was first seen, by whether it was being deleted
}

// Outcomes of the attacher's calls. "" is immediate success.
const (
	errs   = "fails"
	isSlow = "is slow"
	hangs  = "hangs"
)

// slowness is the duration of a slow call.
const slowness = 30 * time.Second

const finalizer = "external-attacher/disk-example-com"

// setAttacher sets the outcome of the attacher's next calls.
type setAttacher struct{ verb, outcome string }

func (t setAttacher) String() string {
	if t.outcome == "" {
		return "attacher: " + t.verb + " works"
	}
	return "attacher: " + t.verb + " " + t.outcome
}

func (t setAttacher) do(w *world) error {
	w.attacher.outcome[t.verb] = t.outcome
	return nil
}

// runAttacher answers each VolumeAttachment.
func (w *world) runAttacher() error {
	for _, stored := range all[*storagev1.VolumeAttachment](w, "volumeattachments") {
		va := stored.DeepCopy()
		deleting := va.DeletionTimestamp != nil
		if w.attacher.since[va.UID] == nil {
			w.attacher.since[va.UID] = map[bool]time.Time{}
		}
		if _, ok := w.attacher.since[va.UID][deleting]; !ok {
			w.attacher.since[va.UID][deleting] = w.now()
		}
		waited := w.now().Sub(w.attacher.since[va.UID][deleting])
		var err error
		if deleting {
			err = w.detach(va, waited)
		} else {
			err = w.attach(va, waited)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (w *world) attach(va *storagev1.VolumeAttachment, waited time.Duration) (err error) {
	attachments := w.client.StorageV1().VolumeAttachments()
	if va.Status.Attached {
		return nil
	}
	if len(va.Finalizers) == 0 {
		va.Finalizers = []string{finalizer}
		if va, err = attachments.Update(ctx, va, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	switch outcome := w.attacher.outcome["attach"]; {
	case outcome == hangs || outcome == isSlow && waited < slowness:
		return nil
	case outcome == errs:
		if va.Status.AttachError != nil {
			return nil
		}
		va.Status.AttachError = &storagev1.VolumeError{Message: "the array refuses"}
	default:
		va.Status.Attached, va.Status.AttachError = true, nil
	}
	_, err = attachments.UpdateStatus(ctx, va, metav1.UpdateOptions{})
	return err
}

func (w *world) detach(va *storagev1.VolumeAttachment, waited time.Duration) error {
	attachments := w.client.StorageV1().VolumeAttachments()
	switch outcome := w.attacher.outcome["detach"]; {
	case outcome == hangs || outcome == isSlow && waited < slowness:
		return nil
	case outcome == errs:
		if va.Status.DetachError != nil {
			return nil
		}
		va.Status.DetachError = &storagev1.VolumeError{Message: "the array keeps it"}
		_, err := attachments.UpdateStatus(ctx, va, metav1.UpdateOptions{})
		return err
	default:
		va.Finalizers = nil
		_, err := attachments.Update(ctx, va, metav1.UpdateOptions{})
		return err
	}
}

// deleteAttachment deletes a VolumeAttachment, as another client.
type deleteAttachment struct{ disk, node string }

func (d deleteAttachment) String() string {
	return fmt.Sprintf("another client deletes the attachment of %s to %s", d.disk, d.node)
}

func (d deleteAttachment) do(w *world) error {
	name := csi.AttachmentName(diskOf(d.disk).handle, driverName, types.NodeName(d.node))
	va, ok := stored[*storagev1.VolumeAttachment](w, "volumeattachments", "", name)
	if !ok {
		return nil
	}
	w.observer.deletedByOther(va)
	return w.client.StorageV1().VolumeAttachments().Delete(ctx, name, metav1.DeleteOptions{})
}

// conflictingAttachment creates a VolumeAttachment of one volume under the name of another's, as
// another client.
type conflictingAttachment struct{ disk, named, node string }

func (o conflictingAttachment) String() string {
	return fmt.Sprintf("another client attaches %s to %s under the name of the attachment of %s", o.disk, o.node, o.named)
}

func (o conflictingAttachment) do(w *world) error {
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{
		Name: csi.AttachmentName(diskOf(o.named).handle, driverName, types.NodeName(o.node)),
	}}
	va.Spec.Attacher, va.Spec.NodeName, va.Spec.Source.PersistentVolumeName = driverName, o.node, &o.disk
	_, err := w.client.StorageV1().VolumeAttachments().Create(ctx, va, metav1.CreateOptions{})
	return err
}
