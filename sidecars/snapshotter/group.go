package snapshotter

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// The reasons of events about groups.
//
// Upstream: external-snapshotter pkg/sidecar-controller (8.7.0).
const (
	reasonGroupCreate = "GroupSnapshotCreationFailed"
	reasonGroupCheck  = "GroupSnapshotContentCheckandUpdateFailed"
	reasonGroupDelete = "GroupSnapshotDeleteError"
)

// isGroupOf reports whether the content of a group is one of a driver's.
//
// Upstream: external-snapshotter pkg/sidecar-controller isDriverMatch (8.7.0).
func isGroupOf(driverName string, content *snapshotapi.VolumeGroupSnapshotContent) bool {
	source := content.Spec.Source
	return content.Spec.Driver == driverName && (source.GroupSnapshotHandles != nil || len(source.VolumeHandles) > 0)
}

// decideGroup returns what the content of a group needs next.
//
// Upstream: external-snapshotter pkg/sidecar-controller syncGroupSnapshotContent,
// checkandUpdateGroupSnapshotContentStatusOperation (8.7.0).
func decideGroup(content *snapshotapi.VolumeGroupSnapshotContent) action {
	_, isMarked := content.Annotations[snapshotapi.GroupBeingCreated]
	isReady := content.Status != nil && ptr.Deref(content.Status.ReadyToUse, false)
	switch {
	case isGroupRemovable(content):
		return remove
	case len(content.Spec.Source.VolumeHandles) > 0 && content.Status == nil:
		return create
	case isReady && isMarked:
		return unmark
	case isReady:
		return idle
	case content.Spec.Source.GroupSnapshotHandles != nil:
		return list
	default:
		return retry
	}
}

// isGroupRemovable is isRemovable for the content of a group.
//
// Upstream: external-snapshotter pkg/sidecar-controller shouldDeleteGroupSnapshotContent (8.7.0).
func isGroupRemovable(content *snapshotapi.VolumeGroupSnapshotContent) bool {
	_, isMarked := content.Annotations[snapshotapi.GroupBeingCreated]
	_, isAgreed := content.Annotations[snapshotapi.GroupBeingDeleted]
	isUnbound := content.Spec.Source.GroupSnapshotHandles != nil && content.Spec.VolumeGroupSnapshotRef.UID == ""
	return content.DeletionTimestamp != nil && (isUnbound || !isMarked && isAgreed)
}

// groupNeedsSync is needsSync for the content of a group.
//
// Upstream: external-snapshotter pkg/utils ShouldEnqueueGroupContentChange (8.7.0).
func groupNeedsSync(before, after *snapshotapi.VolumeGroupSnapshotContent) bool {
	if decideGroup(after) == idle {
		return false
	}
	if before == nil || decideGroup(before) == idle {
		return true
	}
	is := *after
	is.ObjectMeta = sanitize(before.ObjectMeta, after.ObjectMeta, snapshotapi.GroupBeingCreated)
	is.Status = before.Status
	return !equality.Semantic.DeepEqual(*before, is)
}

// syncGroupContent does what the content of a group needs next.
//
// Upstream: external-snapshotter pkg/sidecar-controller syncGroupSnapshotContent (8.7.0).
func (c *Controller) syncGroupContent(ctx context.Context, k key) error {
	content := c.groupContents.get(k.name)
	if content == nil || !c.isMyGroup(content) {
		return nil
	}
	if decideGroup(content) == retry && !c.groupContents.isConfirmed(k.name) {
		// The cache of a process that has just started may be old: the content may be gone, with its
		// snapshot.
		var err error
		if content, err = c.groupContents.read(ctx, k.name); err != nil {
			return ignoreNotFound(err)
		}
	}
	const check = "Failed to check and update group snapshot content"
	switch decideGroup(content) {
	case idle:
		return nil
	case create:
		return c.progressGroup(ctx, content, reasonGroupCreate, "Failed to create group snapshot", c.createGroup)
	case retry:
		return c.progressGroup(ctx, content, reasonGroupCheck, check, c.createGroup)
	case list:
		return c.progressGroup(ctx, content, reasonGroupCheck, check, c.getGroup)
	case unmark:
		if _, err := c.groupContents.annotate(ctx, content, snapshotapi.GroupBeingCreated, nil); err != nil {
			return err
		}
		return c.groupAgain(content.Name)
	case remove:
		return c.removeGroup(ctx, content)
	}
	panic("unreachable")
}

// isMyGroup reports whether the class of a content, if it exists, is one of the driver's.
func (c *Controller) isMyGroup(content *snapshotapi.VolumeGroupSnapshotContent) bool {
	if !isGroupOf(c.cfg.DriverName, content) {
		return false
	}
	class := c.groupClasses.Get("", ptr.Deref(content.Spec.VolumeGroupSnapshotClassName, ""))
	return class == nil || class.Driver == c.cfg.DriverName
}

// progressGroup is progress for the content of a group.
//
// Upstream: external-snapshotter pkg/sidecar-controller createGroupSnapshot,
// checkandUpdateGroupSnapshotContentStatus (8.7.0).
func (c *Controller) progressGroup(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent, reason, prefix string,
	do func(context.Context, *snapshotapi.VolumeGroupSnapshotContent) error,
) error {
	err := do(ctx, content)
	if err == nil {
		return c.groupAgain(content.Name)
	}
	if newest := c.groupContents.get(content.Name); newest != nil {
		content = newest
	}
	var was *snapshotapi.Error
	if content.Status != nil {
		was = content.Status.Error
	}
	c.groupContents.report(ctx, content, was, reason, fmt.Sprintf("%s: %v", prefix, err))
	return err
}

// groupAgain queues the content of a group that was written and needs more.
func (c *Controller) groupAgain(name string) error {
	content := c.groupContents.get(name)
	if content == nil {
		return nil
	}
	return c.requeue(key{group: true, name: name}, decideGroup(content))
}
