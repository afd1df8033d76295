package pvcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// A volumeAction is the next step for a volume.
type volumeAction int

const (
	volumeOffer      volumeAction = iota // phase Available: free, or reserved for a claim that is not bound yet
	volumeRelease                        // phase Released, then apply the reclaim policy
	volumeMismatch                       // record on volume and claim that their modes differ
	volumeAwaitClaim                     // the claim's sync continues the binding
	volumeConfirm                        // phase Bound
	volumeUnbind                         // remove the claimRef
)

// syncVolume takes the next step for a volume.
//
// Upstream: pkg/controller/volume/persistentvolume syncVolume (v1.36).
func (c *Controller) syncVolume(ctx context.Context, volume *corev1.PersistentVolume) error {
	volume, err := c.syncVolumeMetadata(ctx, volume)
	if err != nil {
		return err
	}
	claim, err := c.claimOf(ctx, volume)
	if err != nil {
		return err
	}
	if now := c.volumes.get(volume.Name); now == nil || now.ResourceVersion != volume.ResourceVersion {
		c.volumeQueue.Add(volume.Name) // it changed during the request for the claim
		return nil
	}
	action := decideVolume(volume, claim)
	if action != volumeRelease && c.isBeingReclaimed(volume, queueItem{c.volumeQueue, volume.Name}) {
		return nil
	}
	if action != volumeMismatch && action != volumeRelease {
		c.clearSent(volume.UID)
	}
	return c.applyVolume(ctx, volume, claim, action)
}

// claimOf returns the claim in a volume's claimRef, by UID. It returns nil if the claimRef has no
// UID or the claim does not exist. Only the API server is trusted for a missing claim: a cache may
// be stale, and data may be deleted as a consequence.
//
// Differs: at every resync upstream asks the server again for each released volume whose claim's
// name another claim has now (kubernetes#118545). UIDs are not reused, so here the server is asked
// once.
//
// Upstream: pkg/controller/volume/persistentvolume syncVolume (v1.36), where it looks for the
// claim.
func (c *Controller) claimOf(
	ctx context.Context, volume *corev1.PersistentVolume,
) (*corev1.PersistentVolumeClaim, error) {
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	key := keyOfRef(ref)
	c.memory.read(partGone, volume.Name)
	claim := c.claims.keep(key)
	if claim == nil {
		claim = listed[*corev1.PersistentVolumeClaim](c.claimIndexer, key)
	}
	switch {
	case claim != nil && claim.UID == ref.UID:
		return claim, nil
	case c.goneClaims[volume.Name] == ref.UID, claim == nil && isReleased(volume):
		return nil, nil
	}
	live, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case err == nil && live.UID == ref.UID:
		return live, nil
	case err == nil || apierrors.IsNotFound(err):
		c.memory.write(partGone, volume.Name)
		c.goneClaims[volume.Name] = ref.UID
		return nil, nil
	default:
		return nil, err
	}
}

// decideVolume decides the next step for a volume. claim is the result of claimOf.
func decideVolume(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) volumeAction {
	ref := volume.Spec.ClaimRef
	switch {
	case ref == nil || ref.UID == "":
		return volumeOffer
	case claim == nil:
		return volumeRelease
	case claim.Spec.VolumeName == volume.Name:
		return volumeConfirm
	case claim.Spec.VolumeName != "":
		return decideSurplus(volume)
	case storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec):
		return volumeMismatch
	default:
		return volumeAwaitClaim
	}
}

// decideSurplus decides about a volume whose claim is bound to another volume. A volume provisioned
// for the claim is released; any other is unbound.
func decideSurplus(volume *corev1.PersistentVolume) volumeAction {
	if metav1.HasAnnotation(volume.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned) &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return volumeRelease
	}
	return volumeUnbind
}

func (c *Controller) applyVolume(
	ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, action volumeAction,
) error {
	switch action {
	case volumeOffer:
		_, err := c.writePhase(ctx, volume, corev1.VolumeAvailable, "")
		return err
	case volumeRelease:
		return c.release(ctx, volume)
	case volumeMismatch:
		c.recordOnce(volume.UID, volume, msgModeOfVolume(claim.Name))
		c.recordOnce(volume.UID, claim, msgModeOfClaim(volume.Name))
		return nil
	case volumeAwaitClaim:
		c.claimQueue.Add(c.claims.key(claim))
		return nil
	case volumeConfirm:
		_, err := c.writePhase(ctx, volume, corev1.VolumeBound, "")
		return err
	case volumeUnbind:
		return c.unbind(ctx, volume)
	default:
		panic(fmt.Sprintf("pvcontroller: volume action %d", action))
	}
}

// release marks a volume as Released, unless it is Released or Failed, and applies its policy.
func (c *Controller) release(ctx context.Context, volume *corev1.PersistentVolume) error {
	if !isReleased(volume) {
		written, err := c.writePhase(ctx, volume, corev1.VolumeReleased, "")
		if err != nil {
			return err
		}
		volume = written
	}
	return c.reclaim(ctx, volume)
}

// isReleased reports whether a volume was found without its claim before. Failed can follow
// Released.
func isReleased(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeReleased || volume.Status.Phase == corev1.VolumeFailed
}
