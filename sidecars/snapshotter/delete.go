package snapshotter

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// remove removes the snapshot of a content if its policy says so, and the content's finalizer. The
// snapshot of a member of a group is removed with the group.
//
// Upstream: external-snapshotter pkg/sidecar-controller syncContent (8.7.0).
func (c *Controller) remove(ctx context.Context, content *snapshotapi.VolumeSnapshotContent) error {
	status := content.Status
	if content.Spec.DeletionPolicy == snapshotapi.Delete &&
		status != nil && status.SnapshotHandle != nil && status.VolumeGroupSnapshotHandle == nil {
		var err error
		if content, err = c.deleteSnapshot(ctx, content); err != nil {
			return err
		}
	}
	return c.contents.release(ctx, content, snapshotapi.ContentFinalizer)
}

// deleteSnapshot calls the driver, and forgets the snapshot in the content's status.
//
// Upstream: external-snapshotter pkg/sidecar-controller deleteCSISnapshotOperation,
// clearVolumeContentStatus (8.7.0).
func (c *Controller) deleteSnapshot(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent,
) (*snapshotapi.VolumeSnapshotContent, error) {
	secrets, err := c.annotatedSecrets(ctx, content)
	if err != nil {
		c.contents.warn(content, reasonDelete, "Failed to get snapshot credentials")
		return nil, fmt.Errorf("failed to get input parameters to delete snapshot for content %s: %q", content.Name, err)
	}
	_, err = c.driver.DeleteSnapshot(ctx, &csispec.DeleteSnapshotRequest{SnapshotId: handleOf(content), Secrets: secrets})
	if err != nil {
		c.contents.warn(content, reasonDelete, "Failed to delete snapshot")
		return nil, fmt.Errorf("failed to delete snapshot %q, err: failed to delete snapshot content %s: %q",
			content.Name, content.Name, err)
	}
	cleared := *content.Status
	cleared.SnapshotHandle, cleared.ReadyToUse, cleared.CreationTime, cleared.RestoreSize = nil, nil, nil, nil
	updated, err := c.contents.patchStatus(ctx, content, content.Status, cleared)
	if err != nil {
		c.contents.warn(content, reasonDelete, "Failed to clear content status")
		return nil, err
	}
	return updated, nil
}
