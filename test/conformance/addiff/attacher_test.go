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

// attacher answers VolumeAttachments. What it could not do it tries again each time.
type attacher struct {
	outcome map[string]string                // by verb, "attach" or "detach"
	since   map[types.UID]map[bool]time.Time // when it saw the object first, by whether that was being deleted
}

// What comes of the attacher's calls, but for "", success at once.
const (
	errs   = "fails"
	isSlow = "is slow"
	hangs  = "hangs"
)

// slowness is how long a slow call takes.
const slowness = 30 * time.Second

const finalizer = "external-attacher/disk-example-com"

// turn is what comes of the attacher's calls from now on.
type turn struct{ verb, outcome string }

func (t turn) String() string {
	if t.outcome == "" {
		return "attacher: " + t.verb + " works"
	}
	return "attacher: " + t.verb + " " + t.outcome
}

func (t turn) do(u *user) error {
	u.attacher.outcome[t.verb] = t.outcome
	return nil
}

// answer answers each VolumeAttachment.
func (u *user) answer() error {
	for _, stored := range all[*storagev1.VolumeAttachment](u, "volumeattachments") {
		va := stored.DeepCopy()
		leaving := va.DeletionTimestamp != nil
		if u.attacher.since[va.UID] == nil {
			u.attacher.since[va.UID] = map[bool]time.Time{}
		}
		if _, ok := u.attacher.since[va.UID][leaving]; !ok {
			u.attacher.since[va.UID][leaving] = u.now()
		}
		waited := u.now().Sub(u.attacher.since[va.UID][leaving])
		var err error
		if leaving {
			err = u.detach(va, waited)
		} else {
			err = u.attach(va, waited)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (u *user) attach(va *storagev1.VolumeAttachment, waited time.Duration) (err error) {
	attachments := u.client.StorageV1().VolumeAttachments()
	if va.Status.Attached {
		return nil
	}
	if len(va.Finalizers) == 0 {
		va.Finalizers = []string{finalizer}
		if va, err = attachments.Update(ctx, va, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	switch outcome := u.attacher.outcome["attach"]; {
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

func (u *user) detach(va *storagev1.VolumeAttachment, waited time.Duration) error {
	attachments := u.client.StorageV1().VolumeAttachments()
	switch outcome := u.attacher.outcome["detach"]; {
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

// dropAttachment is somebody else deleting a VolumeAttachment.
type dropAttachment struct{ disk, node string }

func (d dropAttachment) String() string {
	return fmt.Sprintf("somebody deletes the attachment of %s to %s", d.disk, d.node)
}

func (d dropAttachment) do(u *user) error {
	name := csi.AttachmentName(diskOf(d.disk).handle, driverName, types.NodeName(d.node))
	va, ok := stored[*storagev1.VolumeAttachment](u, "volumeattachments", "", name)
	if !ok {
		return nil
	}
	u.seen.foreign(va)
	return u.client.StorageV1().VolumeAttachments().Delete(ctx, name, metav1.DeleteOptions{})
}

// otherAttachment is somebody making a VolumeAttachment of one volume under the name of another's.
type otherAttachment struct{ disk, named, node string }

func (o otherAttachment) String() string {
	return fmt.Sprintf("somebody attaches %s to %s by the name that is %s's", o.disk, o.node, o.named)
}

func (o otherAttachment) do(u *user) error {
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{
		Name: csi.AttachmentName(diskOf(o.named).handle, driverName, types.NodeName(o.node)),
	}}
	va.Spec.Attacher, va.Spec.NodeName, va.Spec.Source.PersistentVolumeName = driverName, o.node, &o.disk
	_, err := u.client.StorageV1().VolumeAttachments().Create(ctx, va, metav1.CreateOptions{})
	return err
}
