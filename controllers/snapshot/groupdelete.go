package snapshot

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// syncDeletedGroup continues the deletion of a group: its content is marked and, if the policy is Delete,
// deleted; then its members are deleted, and the finalizer is removed.
//
// Differs: a content that the status does not name yet is found by its name.
//
// Upstream: external-snapshotter pkg/common-controller processGroupSnapshotWithDeletionTimestamp (8.7.0).
func (g *groups) syncDeletedGroup(ctx context.Context, group *snapshotapi.VolumeGroupSnapshot) error {
	if !slices.Contains(group.Finalizers, snapshotapi.GroupBoundFinalizer) {
		return nil
	}
	content, err := g.groupContentToDelete(ctx, group)
	if err != nil {
		return err
	}
	members := g.members(group, content)
	for _, s := range members {
		if g.isBeingRestored(s) {
			text := fmt.Sprintf("Snapshot %s belonging to VolumeGroupSnapshot %s is being used to restore a PVC", keyOf(s), keyOf(group))
			g.groupEventOnce(group, "SnapshotDeletePending", text)
			return unmet("%s: snapshot is in use, will retry deletion", text)
		}
	}
	keep := false
	if content != nil {
		if content, err = g.markGroupDeleted(ctx, content); err != nil {
			return err
		}
		keep = content != nil && content.Spec.DeletionPolicy == snapshotapi.Delete
	}
	if keep {
		if err := g.deleteGroupContent(ctx, group, content); err != nil {
			return err
		}
	}
	if err := g.deleteMembers(ctx, group, members); err != nil || keep {
		return err
	}
	return g.releaseGroup(ctx, group)
}

// groupContentToDelete returns the content that a group is bound to, in both directions, nil if there is
// none.
func (g *groups) groupContentToDelete(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	name := group.BoundContent()
	if name == "" && group.Spec.Source.VolumeGroupSnapshotContentName == nil {
		name = snapshotapi.GroupContentName(group) // its status may not have been written
	}
	if name == "" {
		return nil, nil //nolint:nilnil // none
	}
	content := g.groupContents.Get("", name)
	if content == nil {
		var err error
		if content, err = g.readGroupContent(ctx, name); err != nil {
			return nil, err
		}
	}
	if content == nil || !content.PointsTo(group) {
		return nil, nil //nolint:nilnil // none
	}
	return content, nil
}

// markGroupDeleted annotates a content whose group is being deleted, whatever its deletion policy. It
// returns nil if the content is gone.
//
// Differs: upstream replaces all annotations by those of its cache.
//
// Upstream: external-snapshotter pkg/common-controller setAnnVolumeGroupSnapshotBeingDeleted (8.7.0).
func (g *groups) markGroupDeleted(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	if metav1.HasAnnotation(content.ObjectMeta, snapshotapi.GroupBeingDeleted) {
		return content, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"yes"}}}`, content.UID, snapshotapi.GroupBeingDeleted)
	marked, err := g.groupContentClient.Patch(ctx, "", content.Name, types.MergePatchType, patch)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // none
	case err != nil:
		return nil, updateError(content.Name, err)
	}
	g.ownGroupContent.note(marked)
	return marked, nil
}

// deleteGroupContent deletes the content of a group, unless it is being deleted.
//
// Differs: a content without its finalizer gets it first; see deleteContent.
func (g *groups) deleteGroupContent(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) error {
	if content.DeletionTimestamp != nil {
		return nil
	}
	if !slices.Contains(content.Finalizers, snapshotapi.GroupContentFinalizer) {
		_, err := g.patchGroupContent(ctx, content, addFinalizers(content, snapshotapi.GroupContentFinalizer)...)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return updateError(content.Name, err)
		}
	}
	err := g.groupContentClient.Delete(ctx, "", content.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		g.groupEvent(group, corev1.EventTypeWarning, "GroupSnapshotContentObjectDeleteError",
			"Failed to delete group snapshot content API object")
		return fmt.Errorf("failed to delete VolumeGroupSnapshotContent %s from API server: %q", content.Name, err)
	}
	return nil
}

// deleteMembers deletes the members of a group, unless they are being deleted.
func (g *groups) deleteMembers(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, members []*snapshotapi.VolumeSnapshot,
) error {
	for _, s := range members {
		if s.DeletionTimestamp != nil {
			continue
		}
		err := g.snapshotClient.Delete(ctx, s.Namespace, s.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			text := fmt.Sprintf("failed to delete snapshot API object %s/%s part of group snapshot %s: %v",
				s.Namespace, s.Name, keyOf(group), err)
			g.groupEvent(group, corev1.EventTypeWarning, "SnapshotDeleteError", text)
			return fmt.Errorf("%s", text)
		}
	}
	return nil
}

// releaseGroup removes the finalizer of a group that is being deleted.
//
// Upstream: external-snapshotter pkg/common-controller removeGroupSnapshotFinalizer (8.7.0).
func (g *groups) releaseGroup(ctx context.Context, group *snapshotapi.VolumeGroupSnapshot) error {
	changed := *group
	changed.Finalizers = without(group.Finalizers, snapshotapi.GroupBoundFinalizer)
	written, err := g.groupClient.Update(ctx, &changed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return updateError(group.Name, err)
	}
	g.ownGroup.note(written)
	return nil
}
