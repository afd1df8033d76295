package snapshot

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// claimTries is how often a claim is read and updated if updates conflict.
//
// Upstream: client-go util/retry DefaultRetry.
const claimTries = 5

// sourceClaim returns the claim of which a snapshot is taken, from the cache.
//
// Upstream: external-snapshotter pkg/common-controller getClaimFromVolumeSnapshot (8.7.0).
func (c *controller) sourceClaim(snapshot *snapshotapi.VolumeSnapshot) (*corev1.PersistentVolumeClaim, error) {
	switch name := snapshot.Spec.Source.PersistentVolumeClaimName; {
	case name == nil:
		return nil, unmet("the snapshot source PVC name is not specified")
	case *name == "":
		return nil, unmet("the PVC name is not specified in snapshot %s", keyOf(snapshot))
	default:
		claim, err := c.claims.PersistentVolumeClaims(snapshot.Namespace).Get(*name)
		if err != nil { // NotFound
			return nil, unmet("failed to retrieve PVC %s from the lister: %q", *name, err)
		}
		return claim, nil
	}
}

// sourceVolume returns the volume of the claim of which a snapshot is taken, from the API server.
//
// Upstream: external-snapshotter pkg/common-controller getVolumeFromVolumeSnapshot (8.7.0).
func (c *controller) sourceVolume(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*corev1.PersistentVolume, error) {
	claim, err := c.sourceClaim(snapshot)
	if err != nil {
		return nil, err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil, unmet("the PVC %s is not yet bound to a PV, will not attempt to take a snapshot", claim.Name)
	}
	return c.volumeOf(ctx, claim)
}

// volumeOf returns the volume of a bound claim, from the API server.
func (c *controller) volumeOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	name := claim.Spec.VolumeName
	volume, err := c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			err = unmet("%v", err)
		}
		return nil, restated(err, "failed to retrieve PV %s from the API server: %q", name, err)
	}
	if !isBoundTo(volume, claim) {
		return nil, unmet("claim in dataSource not bound or invalid")
	}
	return volume, nil
}

// isBoundTo reports whether a volume is bound to the claim, or pre-bound to it by name.
//
// Upstream: external-snapshotter pkg/common-controller isVolumeBoundToClaim (8.7.0).
func isBoundTo(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name &&
		(ref.UID == "" || ref.UID == claim.UID)
}

// holdClaim adds the finalizer that keeps the claim of a snapshot while the snapshot is taken.
//
// Upstream: external-snapshotter pkg/common-controller ensurePVCFinalizer (8.7.0).
func (c *controller) holdClaim(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	claim, err := c.sourceClaim(snapshot)
	switch {
	case err != nil:
		return updateError(snapshot.Name, unmet("cannot get claim from snapshot"))
	case slices.Contains(claim.Finalizers, snapshotapi.ClaimSourceFinalizer):
		return nil
	case claim.DeletionTimestamp != nil:
		return updateError(claim.Name, unmet("cannot add finalizer on claim because it is being deleted"))
	}
	claim = claim.DeepCopy()
	claim.Finalizers = append(claim.Finalizers, snapshotapi.ClaimSourceFinalizer)
	held, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return updateError(claim.Name, err)
	}
	c.ownClaim.note(held)
	return nil
}

// releaseClaim removes that finalizer once no snapshot of the claim remains to be taken. ended means that
// this one does not count.
//
// Differs: upstream leaves the finalizer if a process that has just started does not find it in its cache of
// claims, which may be old.
//
// Upstream: external-snapshotter pkg/common-controller checkandRemovePVCFinalizer, removePVCFinalizer
// (8.7.0).
func (c *controller) releaseClaim(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, ended bool) error {
	claim := c.claimOf(snapshot)
	if claim == nil || c.isSource(claim, snapshot, ended) {
		return nil
	}
	// A snapshot that goes is not synced again when its claim appears in the cache; see queueToRelease.
	isKnown := slices.Contains(claim.Finalizers, snapshotapi.ClaimSourceFinalizer) || c.ownClaim.isNewer(claim)
	if !isKnown && (!ended || c.ownClaim.has(claim.Namespace, claim.Name)) {
		return nil
	}
	var err error
	claims := c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	for range claimTries {
		var current *corev1.PersistentVolumeClaim
		if current, err = claims.Get(ctx, claim.Name, metav1.GetOptions{}); err != nil {
			break
		}
		if !slices.Contains(current.Finalizers, snapshotapi.ClaimSourceFinalizer) {
			break
		}
		current = current.DeepCopy()
		current.Finalizers = without(current.Finalizers, snapshotapi.ClaimSourceFinalizer)
		if current, err = claims.Update(ctx, current, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			if err == nil {
				c.ownClaim.note(current)
			}
			break
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return updateError(claim.Name, err)
	}
	return nil
}

// claimOf returns the claim of which a snapshot is taken, nil for none. If the cache lacks it, only its
// name is known.
func (c *controller) claimOf(snapshot *snapshotapi.VolumeSnapshot) *corev1.PersistentVolumeClaim {
	name := snapshot.SourceClaim()
	if name == "" {
		return nil
	}
	if claim, err := c.sourceClaim(snapshot); err == nil {
		return claim
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.Namespace, Name: name}}
}

// queueToRelease queues a snapshot of a claim that has its finalizer, unless a snapshot remains to be
// taken: the cache of claims was older than that of snapshots.
func (c *controller) queueToRelease(claim *corev1.PersistentVolumeClaim) {
	all := c.snapshots.List(claim.Namespace)
	if isSource(all, claim.Name, "") {
		return
	}
	for _, s := range all {
		if s.SourceClaim() == claim.Name {
			c.snapshotQueue.Add(keyOf(s))
		}
	}
}

// isSource reports whether a snapshot of a claim remains to be taken. With skipCurrent, the
// current one does not count.
//
// Upstream: external-snapshotter pkg/common-controller isPVCBeingUsed (8.7.0).
func (c *controller) isSource(
	claim *corev1.PersistentVolumeClaim, current *snapshotapi.VolumeSnapshot, skipCurrent bool,
) bool {
	skipped := ""
	if skipCurrent {
		skipped = current.Name
	}
	return isSource(c.snapshots.List(claim.Namespace), claim.Name, skipped)
}

// isSource reports whether one of the snapshots is of a claim and remains to be taken; the skipped one does
// not count.
func isSource(all []*snapshotapi.VolumeSnapshot, claim, skipped string) bool {
	return slices.ContainsFunc(all, func(s *snapshotapi.VolumeSnapshot) bool {
		return s.SourceClaim() == claim && !s.IsReady() && (skipped == "" || s.Name != skipped)
	})
}

// isBeingRestored reports whether a claim in the cache that is not bound yet restores from a snapshot.
//
// Upstream: external-snapshotter pkg/common-controller isVolumeBeingCreatedFromSnapshot (8.7.0).
func (c *controller) isBeingRestored(snapshot *snapshotapi.VolumeSnapshot) bool {
	claims, err := c.claims.PersistentVolumeClaims(snapshot.Namespace).List(labels.Everything())
	return err == nil && slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase == corev1.ClaimPending && snapshotapi.RestoredFrom(claim) == snapshot.Name
	})
}
