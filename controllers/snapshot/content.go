package snapshot

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// syncContent protects a bound content, queues its snapshot, and marks the content if its snapshot is
// being deleted. A content without its snapshot stays: it may be a copy from another cluster.
//
// Upstream: external-snapshotter pkg/common-controller syncContent (8.7.0).
func (c *controller) syncContent(ctx context.Context, content *snapshotapi.VolumeSnapshotContent) error {
	ref, source := &content.Spec.VolumeSnapshotRef, &content.Spec.Source
	switch {
	case (source.VolumeHandle == nil) == (source.SnapshotHandle == nil):
		c.cfg.Recorder.Event(snapshotapi.Contents.Unstructured(content), corev1.EventTypeWarning, "ContentValidationError",
			"Exactly one of VolumeHandle and SnapshotHandle should be specified")
		return nil // until it changes
	case ref.UID == "":
		return nil // the sync of the snapshot binds it
	case content.DeletionTimestamp == nil && !slices.Contains(content.Finalizers, snapshotapi.ContentFinalizer):
		if _, err := c.patchContent(ctx, content, addFinalizers(content, snapshotapi.ContentFinalizer)...); err != nil {
			return updateError(content.Name, err)
		}
		return nil
	}
	snapshot := c.snapshots.Get(ref.Namespace, ref.Name)
	if snapshot == nil || snapshot.UID != ref.UID {
		return nil
	}
	if needsSnapshotSync(snapshot, content) {
		c.snapshotQueue.Add(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
	if isDeletionCandidate(snapshot) {
		_, err := c.markDeleted(ctx, content)
		return err
	}
	return nil
}

// needsSnapshotSync reports whether the snapshot of a content must be synced: it lacks what the content
// reports, or the content says whether it is ready. The snapshot may then need a finalizer, if the deletion
// policy was changed, or report that its class does not exist any more.
//
// Upstream: external-snapshotter pkg/common-controller needsUpdateSnapshotStatus (8.7.0), which compares
// pointers.
func needsSnapshotSync(snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent) bool {
	return content.Status != nil && (content.Status.ReadyToUse != nil ||
		!equality.Semantic.DeepEqual(snapshot.Status, statusFrom(snapshot.Status, content)))
}
