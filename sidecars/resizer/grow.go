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

// preResizeAnnotation, on a volume, is the size that its claim had before it began to grow.
//
// Upstream: pkg/volume/util AnnPreResizeCapacity (v1.36).
const preResizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"

// The reasons of a resizer's events.
//
// Upstream: external-resizer pkg/util VolumeResizing, VolumeResizeFailed, VolumeResizeSuccess, FileSystemResizeRequired (2.3.0).
const (
	reasonResizing  = "Resizing"
	reasonFailed    = "VolumeResizeFailed"
	reasonSucceeded = "VolumeResizeSuccessful"
	reasonRequired  = "FileSystemResizeRequired"
)

// grow says in the claim what is begun, has the driver do it, and writes the size to the volume, and to the claim who is
// next.
//
// Upstream: external-resizer pkg/controller callResizeOnPlugin (2.3.0).
func (c *Controller) grow(ctx context.Context, key string, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, size resource.Quantity) error {
	claim, err := c.markResizing(ctx, claim, size)
	if err != nil {
		return fmt.Errorf("marking pvc %q as resizing failed: %w", key, err)
	}
	c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonResizing, "External resizer is resizing volume "+volume.Name)
	response, err := c.expand(ctx, volume, size)
	if err != nil {
		return c.markFailed(ctx, claim, volume, err)
	}
	delete(c.failed, claim.UID)
	made := *resource.NewQuantity(response.GetCapacityBytes(), resource.BinarySI)
	if err := c.updateCapacity(ctx, volume, claim, made, response.GetNodeExpansionRequired()); err != nil {
		return err
	}
	if response.GetNodeExpansionRequired() {
		return c.markNodePending(ctx, claim)
	}
	_, err = resize.Patch(ctx, c.cfg.Client, claim, resize.Finished(claim, made), false)
	if err == nil {
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonSucceeded, "Resize volume succeeded")
	}
	return err
}

// markResizing says in the claim that its volume is being grown, and to which size.
//
// Upstream: external-resizer pkg/controller markControllerResizeInProgress (2.3.0).
func (c *Controller) markResizing(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) (*corev1.PersistentVolumeClaim, error) {
	resizing := resize.Condition(corev1.PersistentVolumeClaimResizing, metav1.NewTime(c.cfg.Process.Now()), "")
	begun := resize.WithConditions(claim, true, resizing)
	if allocated := resize.Allocated(claim); allocated.Cmp(size) != 0 || resize.Status(claim) == "" {
		begun = resize.WithAllocated(resize.WithStatus(begun, corev1.PersistentVolumeClaimControllerResizeInProgress), size)
	}
	return resize.Patch(ctx, c.cfg.Client, claim, begun, false)
}

func (c *Controller) expand(ctx context.Context, volume *corev1.PersistentVolume, size resource.Quantity) (*csispec.ControllerExpandVolumeResponse, error) {
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
		VolumeId: volume.Spec.CSI.VolumeHandle, CapacityRange: &csispec.CapacityRange{RequiredBytes: size.Value()}, VolumeCapability: capability,
		Secrets: secrets,
	})
}

// classifyError tells whether an error says that the driver is not at it any more, and whether it will never do so.
//
// Upstream: external-resizer pkg/util IsFinalError, IsResizeInfeasibleError (2.3.0).
func classifyError(err error) (final, infeasible bool) {
	said, is := status.FromError(err)
	if !is {
		return false, false // the driver was not reached, and may be at it since an earlier call
	}
	switch said.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false, false
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return true, true
	default:
		return true, false
	}
}

// secrets are what the driver is to be told to grow a volume.
//
// Upstream: external-resizer pkg/resizer getCredentials (2.3.0).
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

// markFailed says in the claim what has failed for good. What is not feasible is not tried again before another size is asked for.
//
// Differs: upstream tries it again each five minutes.
func (c *Controller) markFailed(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, err error) error {
	text := fmt.Sprintf("resize volume %q by resizer %q failed: %v", volume.Name, c.cfg.DriverName, err)
	c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, text)
	final, infeasible := classifyError(err)
	if !final {
		delete(c.failed, claim.UID)
		return fmt.Errorf("%s", text)
	}
	c.failed[claim.UID] = true
	told := resize.WithConditions(claim, true, resize.Condition(corev1.PersistentVolumeClaimControllerResizeError,
		metav1.NewTime(c.cfg.Process.Now()), fmt.Sprintf("failed to expand pvc with %v", err)))
	if infeasible {
		told = resize.WithStatus(told, corev1.PersistentVolumeClaimControllerResizeInfeasible)
	}
	if _, err := resize.Patch(ctx, c.cfg.Client, claim, told, true); err != nil || infeasible {
		return err
	}
	return fmt.Errorf("%s", text)
}

// updateCapacity writes a volume's size, unless the volume is not as it was seen.
//
// Differs: upstream writes it over whatever was written meanwhile.
//
// Upstream: external-resizer pkg/controller updatePVCapacity (2.3.0).
func (c *Controller) updateCapacity(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, size resource.Quantity, onNode bool) error {
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
	_, err = c.cfg.Client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("updating capacity of PV %q to %s failed: %w", volume.Name, size.String(), err)
	}
	return nil
}

// leaveToNode is all that is done where the driver's controller has no part in growing.
func (c *Controller) leaveToNode(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, size resource.Quantity) error {
	claim, err := c.markResizing(ctx, claim, size)
	if err == nil {
		err = c.updateCapacity(ctx, volume, claim, size, true)
	}
	if err != nil {
		return err
	}
	return c.markNodePending(ctx, claim)
}

// markNodePending says in the claim that it is the node's turn.
//
// Upstream: external-resizer pkg/controller markForPendingNodeExpansion (2.3.0).
func (c *Controller) markNodePending(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	waits := resize.Condition(corev1.PersistentVolumeClaimFileSystemResizePending, metav1.NewTime(c.cfg.Process.Now()), resize.Message)
	next := resize.WithConditions(resize.WithStatus(claim, corev1.PersistentVolumeClaimNodeResizePending), true, waits)
	claim, err := resize.Patch(ctx, c.cfg.Client, claim, next, false)
	if err == nil {
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonRequired, "Require file system resize of volume on node")
	}
	return err
}
