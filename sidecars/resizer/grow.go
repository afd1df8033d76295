package resizer

import (
	"context"
	"encoding/json"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/resize"
	"github.com/volsim/volsim/sidecars/internal/driver"
)

// preResizeAnnotation is the annotation of a volume with the claim's capacity before the expansion.
//
// Upstream: pkg/volume/util AnnPreResizeCapacity (v1.36).
const preResizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"

// The reasons of a resizer's events.
//
// Upstream: external-resizer pkg/util VolumeResizing, VolumeResizeFailed, VolumeResizeSuccess,
// FileSystemResizeRequired (2.3.0).
const (
	reasonResizing  = "Resizing"
	reasonFailed    = "VolumeResizeFailed"
	reasonSucceeded = "VolumeResizeSuccessful"
	reasonRequired  = "FileSystemResizeRequired"
)

// grow marks the claim as resizing, calls the driver, and writes the size to the volume. Then it
// marks the claim as finished or as pending on the node.
//
// Upstream: external-resizer pkg/controller callResizeOnPlugin (2.3.0).
func (c *Controller) grow(
	ctx context.Context, key string, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
	size resource.Quantity,
) error {
	claim, err := c.markResizing(ctx, claim, size)
	if err != nil {
		return fmt.Errorf("marking pvc %q as resizing failed: %w", key, err)
	}
	c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonResizing,
		"External resizer is resizing volume "+volume.Name)
	response, err := c.expand(ctx, volume, size)
	if err != nil {
		return c.markFailed(ctx, claim, volume, err)
	}
	delete(c.failed, claim.UID)
	capacity := *resource.NewQuantity(response.GetCapacityBytes(), resource.BinarySI)
	if err := c.updateCapacity(ctx, volume, claim, capacity, response.GetNodeExpansionRequired()); err != nil {
		return err
	}
	if response.GetNodeExpansionRequired() {
		return c.markNodePending(ctx, claim)
	}
	_, err = resize.Patch(ctx, c.cfg.Client, claim, resize.Finished(claim, capacity), false)
	if err == nil {
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonSucceeded, "Resize volume succeeded")
	}
	return err
}

// markResizing writes into the claim's status that its volume is being expanded, and to which size.
//
// Upstream: external-resizer pkg/controller markControllerResizeInProgress (2.3.0).
func (c *Controller) markResizing(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity,
) (*corev1.PersistentVolumeClaim, error) {
	resizing := resize.Condition(corev1.PersistentVolumeClaimResizing, metav1.NewTime(c.cfg.Process.Now()), "")
	begun := resize.WithConditions(claim, true, resizing)
	if allocated := resize.Allocated(claim); allocated.Cmp(size) != 0 || resize.Status(claim) == "" {
		begun = resize.WithStatus(begun, corev1.PersistentVolumeClaimControllerResizeInProgress)
		begun = resize.WithAllocated(begun, size)
	}
	return resize.Patch(ctx, c.cfg.Client, claim, begun, false)
}

func (c *Controller) expand(
	ctx context.Context, volume *corev1.PersistentVolume, size resource.Quantity,
) (*csispec.ControllerExpandVolumeResponse, error) {
	secrets, err := c.secrets(ctx, volume.Spec.CSI.ControllerExpandSecretRef)
	if err != nil {
		return nil, err
	}
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	capability, err := capabilities.VolumeCapability(driver.VolumeUse{
		AccessModes: volume.Spec.AccessModes, VolumeMode: volume.Spec.VolumeMode,
		FSType: volume.Spec.CSI.FSType, MountOptions: volume.Spec.MountOptions,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to get capabilities of volume %s with %w", volume.Name, err)
	}
	return c.driver.ControllerExpandVolume(ctx, &csispec.ControllerExpandVolumeRequest{
		VolumeId:      volume.Spec.CSI.VolumeHandle,
		CapacityRange: &csispec.CapacityRange{RequiredBytes: size.Value()}, VolumeCapability: capability,
		Secrets: secrets,
	})
}

// classifyError returns whether the driver has finished with an error, and whether a retry cannot
// succeed.
//
// Upstream: external-resizer pkg/util IsFinalError, IsResizeInfeasibleError (2.3.0).
func classifyError(err error) (final, infeasible bool) {
	s, ok := status.FromError(err)
	if !ok {
		return false, false // the driver was not reached, and an earlier call may still run
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false, false
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return true, true
	default:
		return true, false
	}
}

// secrets returns the secrets for a call of the driver.
//
// Upstream: external-resizer pkg/resizer getCredentials, pkg/modifier getModifyCredentials (2.3.0).
func (c *Controller) secrets(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	secret, err := c.cfg.Client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("error getting secret %s in namespace %s: %w", ref.Name, ref.Namespace, err)
	}
	found := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		found[key] = string(value)
	}
	return found, nil
}

// markFailed records a failure, and writes a final one into the claim's status. An infeasible
// expansion is not retried before another size is requested.
//
// Differs: upstream retries it every five minutes.
func (c *Controller) markFailed(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, err error,
) error {
	text := fmt.Sprintf("resize volume %q by resizer %q failed: %v", volume.Name, c.cfg.DriverName, err)
	c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, text)
	final, infeasible := classifyError(err)
	if !final {
		delete(c.failed, claim.UID)
		return fmt.Errorf("%s", text)
	}
	c.failed[claim.UID] = true
	failed := resize.WithConditions(claim, true, resize.Condition(corev1.PersistentVolumeClaimControllerResizeError,
		metav1.NewTime(c.cfg.Process.Now()), fmt.Sprintf("failed to expand pvc with %v", err)))
	if infeasible {
		failed = resize.WithStatus(failed, corev1.PersistentVolumeClaimControllerResizeInfeasible)
	}
	if _, err := resize.Patch(ctx, c.cfg.Client, claim, failed, true); err != nil || infeasible {
		return err
	}
	return fmt.Errorf("%s", text)
}

// updateCapacity writes a volume's size, unless the volume has changed since it was read.
//
// Differs: upstream overwrites concurrent changes.
//
// Upstream: external-resizer pkg/controller updatePVCapacity (2.3.0).
func (c *Controller) updateCapacity(
	ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
	size resource.Quantity, onNode bool,
) error {
	has := volume.Spec.Capacity[corev1.ResourceStorage]
	metadata := map[string]any{"resourceVersion": volume.ResourceVersion}
	if _, annotated := volume.Annotations[preResizeAnnotation]; onNode && !annotated {
		before := resize.Capacity(claim)
		metadata["annotations"] = map[string]string{preResizeAnnotation: before.String()}
	} else if has.Cmp(size) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": metadata, "spec": map[string]any{"capacity": map[string]any{"storage": size.String()}},
	})
	if err != nil {
		return fmt.Errorf("patch of PV: %w", err)
	}
	_, err = c.cfg.Client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("updating capacity of PV %q to %s failed: %w", volume.Name, size.String(), err)
	}
	return nil
}

// leaveToNode prepares an expansion that only the node performs.
func (c *Controller) leaveToNode(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, size resource.Quantity,
) error {
	claim, err := c.markResizing(ctx, claim, size)
	if err == nil {
		err = c.updateCapacity(ctx, volume, claim, size, true)
	}
	if err != nil {
		return err
	}
	return c.markNodePending(ctx, claim)
}

// markNodePending writes into the claim's status that the node must continue.
//
// Upstream: external-resizer pkg/controller markForPendingNodeExpansion (2.3.0).
func (c *Controller) markNodePending(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pending := resize.Condition(corev1.PersistentVolumeClaimFileSystemResizePending,
		metav1.NewTime(c.cfg.Process.Now()), resize.Message)
	next := resize.WithStatus(claim, corev1.PersistentVolumeClaimNodeResizePending)
	next = resize.WithConditions(next, true, pending)
	claim, err := resize.Patch(ctx, c.cfg.Client, claim, next, false)
	if err == nil {
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonRequired,
			"Require file system resize of volume on node")
	}
	return err
}
