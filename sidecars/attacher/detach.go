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

// syncDetach detaches the volume of an attachment that is being deleted, or says in the status why it could not. Without
// the finalizer it is detached already.
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
	_, _ = c.patchAttachment(ctx, attachment, &changed, "status") // that it could not be told matters less than what
	return fmt.Errorf("detach %s: %w", attachment.Name, err)
}

// detach calls the driver and lets the attachment go. The node's id is the CSINode's or, where that does not know the
// driver any more, the one written down when attaching.
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

// markDetached takes the finalizer away and then says so in the status. In this order an attachment that is left between
// the two counts as detached; the other way round it would be detached a second time. With its last finalizer the object
// may be gone, which is as good.
//
// Upstream: external-attacher pkg/controller markAsDetached (4.13.0).
func (c *Controller) markDetached(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	changed := *attachment
	changed.Finalizers = slices.DeleteFunc(slices.Clone(attachment.Finalizers), func(f string) bool { return f == c.finalizer })
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
