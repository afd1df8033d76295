package attacher

import (
	"context"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sidecars/internal/driver"
)

// nodeIDAnnotation is the annotation of a VolumeAttachment with the driver's ID of the node. A
// detach uses it when the node's CSINode does not exist any more.
const nodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"

// syncAttach attaches a volume and writes the result to the status.
//
// Upstream: external-attacher pkg/controller syncAttach, saveAttachError (4.13.0).
func (c *Controller) syncAttach(
	ctx context.Context, attachment *storagev1.VolumeAttachment, capabilities driver.Capabilities,
) error {
	if attachment.Status.Attached {
		return nil
	}
	attachment, metadata, err := c.attach(ctx, attachment, capabilities)
	if err == nil {
		return c.markAttached(ctx, attachment, metadata)
	}
	failure := &storagev1.VolumeError{Message: err.Error(), Time: metav1.NewTime(c.cfg.Process.Now())}
	if s, ok := status.FromError(err); ok {
		code := int32(s.Code())
		failure.ErrorCode = &code
	}
	changed := *attachment
	changed.Status.AttachError = failure
	_, _ = c.patchAttachment(ctx, attachment, &changed, "status") // the attach error matters more
	return fmt.Errorf("attach %s: %w", attachment.Name, err)
}

// attach makes the volume available on the node: finalizers first, then the driver call. It returns
// the attachment as last written, and the publish context.
//
// Upstream: external-attacher pkg/controller csiAttach (4.13.0).
func (c *Controller) attach(
	ctx context.Context, attachment *storagev1.VolumeAttachment, capabilities driver.Capabilities,
) (*storagev1.VolumeAttachment, map[string]string, error) {
	spec, volume, err := c.source(attachment)
	if err != nil {
		return attachment, nil, err
	}
	if volume != nil && volume.DeletionTimestamp != nil {
		return attachment, nil, fmt.Errorf("PersistentVolume %q is marked for deletion", volume.Name)
	}
	if volume != nil {
		if err := c.addVolumeFinalizer(ctx, volume); err != nil {
			return attachment, nil, fmt.Errorf("could not add PersistentVolume finalizer: %w", err)
		}
	}
	capability, err := capabilities.VolumeCapability(driver.VolumeUse{
		AccessModes: spec.AccessModes, VolumeMode: spec.VolumeMode,
		FSType: spec.CSI.FSType, MountOptions: spec.MountOptions,
	})
	if err != nil {
		return attachment, nil, err
	}
	nodeID, err := c.nodeID(attachment.Spec.NodeName)
	if err != nil {
		return attachment, nil, err
	}
	attachment, err = c.prepare(ctx, attachment, nodeID)
	if err != nil {
		return attachment, nil, fmt.Errorf("could not save VolumeAttachment: %w", err)
	}
	response, err := c.driver.ControllerPublishVolume(ctx, &csispec.ControllerPublishVolumeRequest{
		VolumeId: spec.CSI.VolumeHandle, NodeId: nodeID,
		VolumeCapability: capability, VolumeContext: spec.CSI.VolumeAttributes,
		Readonly: spec.CSI.ReadOnly && capabilities[csispec.ControllerServiceCapability_RPC_PUBLISH_READONLY],
	})
	return attachment, response.GetPublishContext(), err
}

// nodeID returns the driver's ID of a node from its CSINode.
//
// Upstream: external-attacher pkg/controller getNodeID (4.13.0).
func (c *Controller) nodeID(node string) (string, error) {
	csiNode, err := c.nodes.Get(node)
	if err != nil {
		return "", err
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == c.cfg.DriverName {
			return d.NodeID, nil
		}
	}
	return "", fmt.Errorf("CSINode %s does not contain driver %s", node, c.cfg.DriverName)
}

// prepare writes the finalizer and the node ID. From then on the volume will be detached, whatever
// happens.
//
// Upstream: external-attacher pkg/controller prepareVAFinalizer, prepareVANodeID (4.13.0).
func (c *Controller) prepare(
	ctx context.Context, attachment *storagev1.VolumeAttachment, nodeID string,
) (*storagev1.VolumeAttachment, error) {
	hasFinalizer := slices.Contains(attachment.Finalizers, c.finalizer)
	if hasFinalizer && attachment.Annotations[nodeIDAnnotation] == nodeID {
		return attachment, nil
	}
	changed := *attachment
	if !hasFinalizer {
		changed.Finalizers = append(slices.Clip(attachment.Finalizers), c.finalizer)
	}
	changed.Annotations = maps.Clone(attachment.Annotations)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, nodeIDAnnotation, nodeID)
	return c.patchAttachment(ctx, attachment, &changed)
}

// markAttached writes to the status that the volume is attached.
//
// Upstream: external-attacher pkg/controller markAsAttached (4.13.0).
func (c *Controller) markAttached(
	ctx context.Context, attachment *storagev1.VolumeAttachment, metadata map[string]string,
) error {
	changed := *attachment
	changed.Status.Attached = true
	changed.Status.AttachmentMetadata = metadata
	changed.Status.AttachError = nil
	if _, err := c.patchAttachment(ctx, attachment, &changed, "status"); err != nil {
		return fmt.Errorf("mark %s as attached: %w", attachment.Name, err)
	}
	return nil
}
