package snapshot

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// syncSnapshot does what a snapshot with its class needs.
//
// Differs: upstream repeats a failed removal of the claim's finalizer at the next resync.
//
// Upstream: external-snapshotter pkg/common-controller syncSnapshot (8.7.0).
func (c *controller) syncSnapshot(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	released := c.releaseClaim(ctx, snapshot, false)
	if released != nil {
		c.event(snapshot, corev1.EventTypeWarning, "ErrorPVCFinalizer", "Error check and remove PVC Finalizer for VolumeSnapshot")
	}
	if err := c.advance(ctx, snapshot); err != nil {
		return err
	}
	return released
}

// advance is syncSnapshot without the release of the claim.
func (c *controller) advance(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	if snapshot.DeletionTimestamp != nil {
		return c.syncDeleted(ctx, snapshot)
	}
	source := &snapshot.Spec.Source
	if (source.PersistentVolumeClaimName == nil) == (source.VolumeSnapshotContentName == nil) {
		const text = "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified"
		return c.fail(ctx, snapshot, notReady, "SnapshotValidationError", text, unmet(text))
	}
	content, err := c.contentOf(ctx, snapshot)
	if err == nil {
		snapshot, err = c.protect(ctx, snapshot, content)
	}
	if err != nil {
		c.eventOnce(snapshot, "SnapshotFinalizerError", "Failed to check and update snapshot: "+err.Error())
		return err
	}
	switch {
	case snapshot.IsReady() && snapshot.IsBound():
		return c.verify(ctx, snapshot)
	case source.VolumeSnapshotContentName != nil:
		return c.bindExisting(ctx, snapshot, content)
	case snapshot.IsMember():
		return c.syncMember(ctx, snapshot)
	default:
		return c.bindCreated(ctx, snapshot, content)
	}
}

// protect adds the finalizers that a snapshot lacks: one as a source of claims, and one that keeps it
// until its content is deleted, if that is deleted with it.
//
// Differs: upstream updates a snapshot that has no finalizers; this is always a patch.
//
// Upstream: external-snapshotter pkg/common-controller checkandAddSnapshotFinalizers (8.7.0).
func (c *controller) protect(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) (*snapshotapi.VolumeSnapshot, error) {
	var missing []string
	if !slices.Contains(snapshot.Finalizers, snapshotapi.SourceFinalizer) {
		missing = append(missing, snapshotapi.SourceFinalizer)
	}
	if content != nil && content.Spec.DeletionPolicy == snapshotapi.Delete && snapshot.IsBound() &&
		!slices.Contains(snapshot.Finalizers, snapshotapi.BoundFinalizer) {
		missing = append(missing, snapshotapi.BoundFinalizer)
	}
	if len(missing) == 0 {
		return snapshot, nil
	}
	return c.patchSnapshot(ctx, snapshot, addFinalizers(snapshot, missing...)...)
}

// verify checks that the content of a ready snapshot exists and points back.
//
// Upstream: external-snapshotter pkg/common-controller syncReadySnapshot (8.7.0).
func (c *controller) verify(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	content, err := c.findContent(ctx, snapshot.BoundContent())
	switch {
	case err != nil:
		return err
	case content == nil:
		return c.fail(ctx, snapshot, notReady, "SnapshotContentMissing", "VolumeSnapshotContent is missing", nil)
	case !content.PointsTo(snapshot):
		return c.fail(ctx, snapshot, notReady, "SnapshotMisbound",
			"VolumeSnapshotContent is not bound to the VolumeSnapshot correctly", nil)
	}
	return c.adopt(ctx, snapshot)
}
