package snapshot

import (
	"context"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// syncMember copies the status of its content to the snapshot of a member of a group. The snapshot is
// bound by the sync of the group.
//
// Upstream: external-snapshotter pkg/common-controller syncUnreadySnapshot (8.7.0).
func (c *controller) syncMember(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	name := snapshot.BoundContent()
	if name == "" {
		return unmet("detected group snapshot member %s with no content, retrying", keyOf(snapshot))
	}
	content, err := c.findContent(ctx, name)
	switch {
	case err != nil:
		return err
	case content == nil:
		return unmet("group snapshot member %s requests an non-existing content %s", keyOf(snapshot), name)
	}
	return c.copyStatus(ctx, snapshot, content)
}

// groupOfContent returns the name of the group of which a content is a member, "" for none.
//
// Upstream: external-snapshotter pkg/common-controller updateSnapshotStatus (8.7.0).
func (c *controller) groupOfContent(
	snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) (string, error) {
	if content.Status == nil || content.Status.VolumeGroupSnapshotHandle == nil {
		return "", nil
	}
	if c.groups != nil {
		for _, candidate := range c.groups.groupContents.List("") {
			if s := candidate.Status; s != nil && s.VolumeGroupSnapshotHandle != nil &&
				*s.VolumeGroupSnapshotHandle == *content.Status.VolumeGroupSnapshotHandle {
				return candidate.Spec.VolumeGroupSnapshotRef.Name, nil
			}
		}
	}
	return "", unmet("updateSnapshotStatus: cannot find the group snapshot for VolumeSnapshot [%s], will not update snapshot status",
		keyOf(snapshot))
}

// adopt makes its group the owner of a ready snapshot that an administrator has written.
//
// Upstream: external-snapshotter pkg/common-controller addVolumeGroupSnapshotOwnership (8.7.0).
func (c *controller) adopt(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	if snapshot.IsMember() || snapshot.GroupName() == "" || c.groups == nil {
		return nil
	}
	group := c.groups.groupSnapshots.Get(snapshot.Namespace, snapshot.GroupName())
	if group == nil {
		return unmet("volumegroupsnapshot.%s %q not found", snapshotapi.GroupGroup, snapshot.GroupName())
	}
	changed := *snapshot
	changed.OwnerReferences = append(changed.OwnerReferences[:len(changed.OwnerReferences):len(changed.OwnerReferences)],
		group.OwnerReference())
	written, err := c.snapshotClient.Update(ctx, &changed)
	_, err = c.wroteSnapshot(snapshot, written, err)
	return err
}

// checkGroupGone fails while the group of a deleted snapshot exists: its members are deleted with it.
//
// Differs: upstream knows the group from the status only. A member that is deleted before its status is
// complete keeps its finalizer there.
//
// Upstream: external-snapshotter pkg/common-controller
// checkandRemoveSnapshotFinalizersAndCheckandDeleteContent (8.7.0).
func (c *controller) checkGroupGone(snapshot *snapshotapi.VolumeSnapshot) error {
	name, uid := snapshot.OwningGroup()
	if snapshot.GroupName() != "" {
		name, uid = snapshot.GroupName(), ""
	}
	if name == "" || c.groups == nil {
		return nil
	}
	if !c.groups.synced() {
		return errNotSynced
	}
	group := c.groups.groupSnapshots.Get(snapshot.Namespace, name)
	if group == nil || uid != "" && group.UID != uid {
		return nil
	}
	const format = "deletion of the individual volume snapshot %s is not allowed as it belongs to group snapshot %s. " +
		"Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are part of the group."
	err := unmet(format, keyOf(snapshot), keyOf(group))
	c.eventOnce(snapshot, "SnapshotDeletePending", err.Error())
	return err
}
