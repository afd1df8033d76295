package attacher

import (
	"context"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// syncDetach detaches the volume of a deleted attachment, or writes the error to the status.
// Without the finalizer the volume is already detached.
//
// Upstream: external-attacher pkg/controller syncDetach, saveDetachError (4.13.0).
func (c *Controller) syncDetach(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	if !slices.Contains(attachment.Finalizers, c.finalizer) {
		return nil
	}
	err := c.detach(ctx, attachment)
	if err == nil {
		return nil
	}
	changed := *attachment
	changed.Status.DetachError = &storagev1.VolumeError{
		Message: err.Error(), Time: metav1.NewTime(c.cfg.Process.Now()),
	}
	_, _ = c.patchAttachment(ctx, attachment, &changed, "status") // the detach error matters more
	return fmt.Errorf("detach %s: %w", attachment.Name, err)
}

// detach calls the driver and releases the attachment. The node ID is the CSINode's or, if that
// does not list the driver any more, the one stored at the attach.
//
// Upstream: external-attacher pkg/controller csiDetach (4.13.0).
func (c *Controller) detach(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	spec, _, err := c.source(attachment)
	if err != nil {
		return err
	}
	nodeID, err := c.nodeID(attachment.Spec.NodeName)
	if written, ok := attachment.Annotations[nodeIDAnnotation]; err != nil && ok {
		nodeID, err = written, nil
	}
	if err != nil {
		return err
	}
	_, err = c.driver.ControllerUnpublishVolume(ctx, &csispec.ControllerUnpublishVolumeRequest{
		VolumeId: spec.CSI.VolumeHandle, NodeId: nodeID,
	})
	if err != nil {
		return err
	}
	if err := c.markDetached(ctx, attachment); err != nil {
		return fmt.Errorf("could not mark as detached: %w", err)
	}
	return nil
}

// markDetached removes the finalizer and then writes the status. In this order an attachment
// between the two writes counts as detached; in the other order it would be detached twice. Without
// its last finalizer the object may be gone, which is not an error.
//
// Upstream: external-attacher pkg/controller markAsDetached (4.13.0).
func (c *Controller) markDetached(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	changed := *attachment
	isOurs := func(finalizer string) bool { return finalizer == c.finalizer }
	changed.Finalizers = slices.DeleteFunc(slices.Clone(attachment.Finalizers), isOurs)
	attachment, err := c.patchAttachment(ctx, attachment, &changed)
	if err != nil {
		return err
	}
	changed = *attachment
	changed.Status.Attached = false
	changed.Status.DetachError = nil
	changed.Status.AttachmentMetadata = nil
	_, err = c.patchAttachment(ctx, attachment, &changed, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
