package pvcontroller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// annPreResizeCapacity is the annotation of a volume with the size that its file system still has.
//
// Upstream: pkg/volume/util AnnPreResizeCapacity (v1.36).
const annPreResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"

// bind binds a volume and a claim to each other with up to four writes in this order: the volume's
// claimRef, the volume's phase, the claim's volumeName, the claim's status. Fields that are right
// are not written. The first error ends it. The claim's next sync continues, since a volume
// reserved for a claim is matched first.
//
// The order makes it safe: one write reserves a volume and only one claim can win it, and a claim
// names a volume only if the volume names the claim.
//
// Upstream: pkg/controller/volume/persistentvolume bind (v1.36).
func (c *Controller) bind(
	ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
) error {
	volume, err := c.bindVolumeToClaim(ctx, volume, claim)
	if err != nil {
		return err
	}
	volume, err = c.writePhase(ctx, volume, corev1.VolumeBound, "")
	if err != nil {
		return err
	}
	claim, err = c.bindClaimToVolume(ctx, claim, volume)
	if err != nil {
		return err
	}
	_, err = c.writeClaimStatus(ctx, claim, corev1.ClaimBound, volume)
	return err
}

// bindVolumeToClaim is the first write: the volume's claimRef names the claim. If the user reserved
// the volume for the claim, only the UID is added. Otherwise the volume is annotated as bound by
// the controller.
//
// Upstream: pkg/controller/volume/persistentvolume bindVolumeToClaim (v1.36).
func (c *Controller) bindVolumeToClaim(
	ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolume, error) {
	bound := storagehelpers.IsVolumeBoundToClaim(volume, claim)
	if bound && volume.Spec.ClaimRef.UID == claim.UID {
		return volume, nil
	}
	changed := *volume // shares the rest with the cached one
	changed.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	if !bound {
		changed.Annotations = maps.Clone(volume.Annotations)
		annotate(&changed.ObjectMeta, storagehelpers.AnnBoundByController)
	}
	return c.writeVolume(ctx, &changed)
}

// bindClaimToVolume is the third write: the claim names the volume and is annotated as bound.
//
// Upstream: pkg/controller/volume/persistentvolume bindClaimToVolume (v1.36).
func (c *Controller) bindClaimToVolume(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
) (*corev1.PersistentVolumeClaim, error) {
	if claim.Spec.VolumeName == volume.Name && isBindCompleted(claim) {
		return claim, nil
	}
	changed := *claim // shares the rest with the cached one; a client does not change what it sends
	changed.Annotations = maps.Clone(claim.Annotations)
	if changed.Spec.VolumeName != volume.Name {
		changed.Spec.VolumeName = volume.Name
		annotate(&changed.ObjectMeta, storagehelpers.AnnBoundByController)
	}
	annotate(&changed.ObjectMeta, storagehelpers.AnnBindCompleted)
	return c.writeClaim(ctx, &changed)
}

// annotate adds an annotation whose value is ignored, unless it exists.
func annotate(meta *metav1.ObjectMeta, name string) {
	if !metav1.HasAnnotation(*meta, name) {
		metav1.SetMetaDataAnnotation(meta, name, "yes")
	}
}

// unbind removes what the controller wrote into a volume's claimRef (all of it, or the UID alone)
// and makes the volume available.
//
// Upstream: pkg/controller/volume/persistentvolume unbindVolume (v1.36).
func (c *Controller) unbind(ctx context.Context, volume *corev1.PersistentVolume) error {
	changed := volume.DeepCopy()
	if metav1.HasAnnotation(volume.ObjectMeta, storagehelpers.AnnBoundByController) {
		changed.Spec.ClaimRef = nil
		delete(changed.Annotations, storagehelpers.AnnBoundByController)
	} else {
		changed.Spec.ClaimRef.UID = ""
	}
	written, err := c.writeVolume(ctx, changed)
	if err != nil {
		return err
	}
	_, err = c.writePhase(ctx, written, corev1.VolumeAvailable, "")
	return err
}

// writeClaim updates a claim except its status.
func (c *Controller) writeClaim(
	ctx context.Context, changed *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	written, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(changed.Namespace).
		Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return written, c.storeClaim(written)
}

// writeVolume updates a volume except its status.
func (c *Controller) writeVolume(
	ctx context.Context, changed *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	written, err := c.cfg.Client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = c.volumes.putWritten(written)
	return written, err
}

// writePhase writes a volume's phase and message, unless the volume is in that phase.
//
// Upstream: pkg/controller/volume/persistentvolume updateVolumePhase (v1.36).
func (c *Controller) writePhase(
	ctx context.Context, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, text string,
) (*corev1.PersistentVolume, error) {
	if volume.Status.Phase == phase {
		return volume, nil
	}
	return c.writeVolumeStatus(ctx, volume, phase, text)
}

func (c *Controller) writeVolumeStatus(
	ctx context.Context, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, text string,
) (*corev1.PersistentVolume, error) {
	changed := *volume // shares the rest with the cached one
	changed.Status.Phase = phase
	changed.Status.Message = text
	written, err := c.cfg.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = c.volumes.putWritten(written)
	return written, err
}

// writeClaimStatus writes a claim's status for a phase and, if it is bound, its volume. It writes
// nothing if the status is right.
//
// Upstream: pkg/controller/volume/persistentvolume updateClaimStatus (v1.36).
func (c *Controller) writeClaimStatus(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase,
	volume *corev1.PersistentVolume,
) (*corev1.PersistentVolumeClaim, error) {
	status, err := claimStatus(claim, phase, volume)
	if err != nil {
		return nil, err
	}
	if sameStatus(status, &claim.Status) {
		return claim, nil
	}
	changed := *claim // shares the rest with the cached one
	changed.Status = *status
	written, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return written, c.storeClaim(written)
}

// claimStatus returns the status that a claim should have. Without a volume it has no capacity,
// access modes or attributes class. With a volume, the access modes are the volume's. The capacity
// is copied only when the phase changes, since a file system may be smaller than its device. The
// attributes class is copied when a pending claim becomes bound. A volume without capacity is an
// error. The status shares memory with the claim and the volume.
func claimStatus(
	claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, volume *corev1.PersistentVolume,
) (*corev1.PersistentVolumeClaimStatus, error) {
	status := new(claim.Status)
	status.Phase = phase
	if volume == nil {
		status.AccessModes, status.Capacity, status.CurrentVolumeAttributesClassName = nil, nil, nil
		return status, nil
	}
	from := &volume.Spec
	status.AccessModes = from.AccessModes
	if claim.Status.Phase == phase {
		return status, nil
	}
	capacity, ok := from.Capacity[corev1.ResourceStorage]
	if !ok {
		return nil, fmt.Errorf("PersistentVolume %q is without a storage capacity", volume.Name)
	}
	current, has := status.Capacity[corev1.ResourceStorage]
	if before, ok := volume.Annotations[annPreResizeCapacity]; ok {
		status.Capacity = status.Capacity.DeepCopy()
		if status.Capacity == nil {
			status.Capacity = corev1.ResourceList{}
		}
		status.Capacity[corev1.ResourceStorage] = parseOr(before, capacity)
	} else if !has || capacity.Cmp(current) != 0 {
		status.Capacity = from.Capacity
	}
	if claim.Status.Phase == corev1.ClaimPending && phase == corev1.ClaimBound {
		status.CurrentVolumeAttributesClassName = from.VolumeAttributesClassName
	}
	return status, nil
}

// sameStatus reports whether two statuses are equal in the fields that claimStatus sets.
func sameStatus(x, y *corev1.PersistentVolumeClaimStatus) bool {
	sameQuantity := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
	return x.Phase == y.Phase && slices.Equal(x.AccessModes, y.AccessModes) &&
		maps.EqualFunc(x.Capacity, y.Capacity, sameQuantity) &&
		ptr.Equal(x.CurrentVolumeAttributesClassName, y.CurrentVolumeAttributesClassName)
}

func parseOr(text string, otherwise resource.Quantity) resource.Quantity {
	if q, err := resource.ParseQuantity(text); err == nil {
		return q
	}
	return otherwise
}

// storeClaim stores the answer to a write of a claim.
func (c *Controller) storeClaim(written *corev1.PersistentVolumeClaim) error {
	fresh, err := c.claims.putWritten(written)
	if fresh == newer {
		c.claimChanged(written)
	}
	return err
}
