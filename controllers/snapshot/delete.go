package snapshot

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// syncDeleted continues the deletion of a snapshot: its content is marked and, if the policy is Delete,
// deleted; then the finalizers are removed.
//
// Differs: a content that the cache lacks is looked up on the API server; upstream may leave one that it
// has just created. The policy is that of the content after it was marked.
//
// Upstream: external-snapshotter pkg/common-controller processSnapshotWithDeletionTimestamp,
// checkandRemoveSnapshotFinalizersAndCheckandDeleteContent (8.7.0).
func (c *controller) syncDeleted(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	if !isDeletionCandidate(snapshot) {
		return nil
	}
	content, err := c.contentToDelete(ctx, snapshot)
	if err != nil {
		return err
	}
	if content != nil && c.isBeingRestored(snapshot) {
		c.eventOnce(snapshot, "SnapshotDeletePending", "Snapshot is being used to restore a PVC")
		return unmet("snapshot %s is in use (being used to restore a PVC), will retry deletion", keyOf(snapshot))
	}
	if err := c.checkGroupGone(snapshot); err != nil {
		return err
	}
	removed := []string{snapshotapi.SourceFinalizer, snapshotapi.InGroupFinalizer}
	if content != nil {
		if content, err = c.markDeleted(ctx, content); err != nil {
			return err
		}
	}
	if content != nil && content.Spec.DeletionPolicy == snapshotapi.Delete {
		err = c.deleteContent(ctx, snapshot, content)
	} else {
		removed = append(removed, snapshotapi.BoundFinalizer)
	}
	if err != nil {
		return err
	}
	return c.unprotect(ctx, snapshot, removed)
}

// isDeletionCandidate reports whether a snapshot is being deleted and has finalizers of this controller.
func isDeletionCandidate(snapshot *snapshotapi.VolumeSnapshot) bool {
	return snapshot.DeletionTimestamp != nil && slices.ContainsFunc(snapshot.Finalizers, func(f string) bool {
		return f == snapshotapi.SourceFinalizer || f == snapshotapi.BoundFinalizer || f == snapshotapi.InGroupFinalizer
	})
}

// contentToDelete returns the content that a snapshot is bound to, in both directions, nil if there is
// none.
func (c *controller) contentToDelete(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshotContent, error) {
	name := snapshot.BoundContent()
	switch { // its status may not have been written
	case name != "":
	case snapshot.IsMember():
		name = memberContentName(snapshot)
	case snapshot.SourceClaim() != "":
		name = snapshotapi.ContentName(snapshot)
	}
	if name == "" {
		return nil, nil //nolint:nilnil // none
	}
	content := c.contents.Get("", name)
	if content == nil {
		var err error
		if content, err = c.readContent(ctx, name); err != nil {
			return nil, err
		}
	}
	if content == nil || !content.PointsTo(snapshot) {
		return nil, nil //nolint:nilnil // none
	}
	return content, nil
}

// markDeleted annotates a content whose snapshot is being deleted, whatever its deletion policy.
//
// Differs: upstream replaces all annotations by those of its cache. It marks the content there before the
// request: if that fails, the content is deleted unmarked, and stays.
//
// Upstream: external-snapshotter pkg/common-controller setAnnVolumeSnapshotBeingDeleted (8.7.0).
func (c *controller) markDeleted(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent,
) (*snapshotapi.VolumeSnapshotContent, error) {
	if metav1.HasAnnotation(content.ObjectMeta, snapshotapi.BeingDeleted) {
		return content, nil
	}
	marked, err := c.annotateContent(ctx, content, snapshotapi.BeingDeleted)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // none
	}
	if err != nil {
		return nil, updateError(content.Name, err)
	}
	return marked, nil
}

// deleteContent deletes the content of a snapshot, unless it is being deleted.
//
// Differs: a content without its finalizer gets it first. Upstream deletes it; it is then gone before the
// sidecar has deleted the snapshot of the driver.
func (c *controller) deleteContent(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) error {
	if content.DeletionTimestamp != nil {
		return nil
	}
	if !slices.Contains(content.Finalizers, snapshotapi.ContentFinalizer) {
		_, err := c.patchContent(ctx, content, addFinalizers(content, snapshotapi.ContentFinalizer)...)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return updateError(content.Name, err)
		}
	}
	err := c.contentClient.Delete(ctx, "", content.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.event(snapshot, corev1.EventTypeWarning, "SnapshotContentObjectDeleteError", "Failed to delete snapshot content API object")
		return fmt.Errorf("failed to delete VolumeSnapshotContent %s from API server: %q", content.Name, err)
	}
	return nil
}

// unprotect removes finalizers of a snapshot that is being deleted, after that of its claim: the snapshot
// may be gone then.
//
// Upstream: external-snapshotter pkg/common-controller removeSnapshotFinalizer (8.7.0).
func (c *controller) unprotect(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, removed []string) error {
	if err := c.releaseClaim(ctx, snapshot, true); err != nil {
		c.event(snapshot, corev1.EventTypeWarning, "ErrorPVCFinalizer", "Error check and remove PVC Finalizer for VolumeSnapshot")
		return updateError(snapshot.Name, err)
	}
	changed := *snapshot
	changed.Finalizers = without(snapshot.Finalizers, removed...)
	if len(changed.Finalizers) == len(snapshot.Finalizers) {
		return nil
	}
	written, err := c.snapshotClient.Update(ctx, &changed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	_, err = c.wroteSnapshot(snapshot, written, err)
	return err
}
