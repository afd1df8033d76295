package snapshot

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// findContent returns a content, nil if it does not exist. The API server is asked for a content that
// this process has created and that the cache lacks.
func (c *controller) findContent(ctx context.Context, name string) (*snapshotapi.VolumeSnapshotContent, error) {
	content := c.contents.Get("", name)
	if content != nil || !c.ownContent.has("", name) {
		return content, nil
	}
	return c.readContent(ctx, name)
}

// readContent returns a content of the API server, nil if it does not exist.
func (c *controller) readContent(ctx context.Context, name string) (*snapshotapi.VolumeSnapshotContent, error) {
	content, err := c.contentClient.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // it does not exist
	}
	return content, err
}

// contentOf returns the content of a snapshot by its source, nil if it does not exist. It fails for a
// content of the other kind of source, or of another snapshot.
//
// Upstream: external-snapshotter pkg/common-controller getPreprovisionedContentFromStore,
// getDynamicallyProvisionedContentFromStore (8.7.0).
func (c *controller) contentOf(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshotContent, error) {
	existing := snapshot.Spec.Source.VolumeSnapshotContentName
	name := snapshotapi.ContentName(snapshot)
	if existing != nil {
		name = *existing
		if name == "" {
			return nil, unmet("empty VolumeSnapshotContentName for snapshot %s", keyOf(snapshot))
		}
	}
	content, err := c.findContent(ctx, name)
	if err != nil || content == nil {
		return nil, err
	}
	ref := &content.Spec.VolumeSnapshotRef
	switch {
	case existing != nil && content.Spec.Source.SnapshotHandle == nil:
		return nil, c.fail(ctx, snapshot, notReady, "SnapshotContentMismatch",
			"VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
			unmet("snapshot %s expects a pre-provisioned VolumeSnapshotContent %s but gets a dynamically provisioned one",
				keyOf(snapshot), name))
	case existing == nil && content.Spec.Source.VolumeHandle == nil:
		return nil, c.fail(ctx, snapshot, notReady, "SnapshotContentMismatch",
			"VolumeSnapshotContent "+name+" is pre-provisioned while expecting a dynamically provisioned one",
			unmet("snapshot %s expects a dynamically provisioned VolumeSnapshotContent %s but gets a pre-provisioned one",
				keyOf(snapshot), name))
	case !content.PointsTo(snapshot) && !(existing != nil && ref.UID == "" && ref.Namespace == snapshot.Namespace && ref.Name == snapshot.Name):
		text := fmt.Sprintf("VolumeSnapshotContent [%s] is bound to a different snapshot", name)
		return nil, c.fail(ctx, snapshot, notReady, "SnapshotContentMisbound", text, unmet("%s", text))
	}
	return content, nil
}

// bindExisting binds a snapshot to a content that its user has named, nil if it does not exist.
//
// Upstream: external-snapshotter pkg/common-controller syncUnreadySnapshot (8.7.0).
func (c *controller) bindExisting(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) error {
	if content == nil {
		return c.fail(ctx, snapshot, notReady, "SnapshotContentMissing", "VolumeSnapshotContent is missing",
			unmet("snapshot %s requests an non-existing content %s", keyOf(snapshot), *snapshot.Spec.Source.VolumeSnapshotContentName))
	}
	bound, err := c.completeRef(ctx, snapshot, content)
	if err != nil {
		return c.fail(ctx, snapshot, notReady, "SnapshotBindFailed",
			fmt.Sprintf("Snapshot failed to bind VolumeSnapshotContent, %v", err),
			fmt.Errorf("snapshot %s is bound, but VolumeSnapshotContent %s is not bound to the VolumeSnapshot correctly, %w",
				keyOf(snapshot), content.Name, err))
	}
	return c.copyStatus(ctx, snapshot, bound)
}

// completeRef writes the UID of a snapshot into the content that names it, and its class if the content
// has none.
//
// Upstream: external-snapshotter pkg/common-controller checkandBindSnapshotContent (8.7.0).
func (c *controller) completeRef(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) (*snapshotapi.VolumeSnapshotContent, error) {
	var ops []patchOp
	if content.Spec.VolumeSnapshotRef.UID == "" {
		ops = append(ops, patchOp{"replace", "/spec/volumeSnapshotRef/uid", string(snapshot.UID)})
	}
	class := snapshot.Spec.VolumeSnapshotClassName
	if class != nil && (len(ops) > 0 || content.Spec.VolumeSnapshotClassName == nil) {
		ops = append(ops, patchOp{"replace", "/spec/volumeSnapshotClassName", *class})
	}
	if len(ops) == 0 {
		return content, nil
	}
	return c.patchContent(ctx, content, ops...)
}

// bindCreated creates the content of a snapshot of a claim, unless it exists, and copies its status.
//
// Upstream: external-snapshotter pkg/common-controller syncUnreadySnapshot, bindandUpdateVolumeSnapshot
// (8.7.0).
func (c *controller) bindCreated(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) error {
	if content == nil {
		created, err := c.createContent(ctx, snapshot)
		if err != nil {
			return c.fail(ctx, snapshot, notReady, "SnapshotContentCreationFailed",
				fmt.Sprintf("Failed to create snapshot content with error %v", err), err)
		}
		content = created
	}
	return c.copyStatus(ctx, snapshot, content)
}
