package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
)

func (g *groups) groupEvent(group *snapshotapi.VolumeGroupSnapshot, eventType, reason, message string) {
	g.cfg.Recorder.Event(snapshotapi.GroupSnapshots.Unstructured(group), eventType, reason, message)
}

// groupEventOnce records a warning about a group, unless it is the last one of its wait.
//
// Differs: upstream records a warning at each retry.
func (g *groups) groupEventOnce(group *snapshotapi.VolumeGroupSnapshot, reason, message string) {
	if one := g.groupWaits.of(group); one.told != message {
		one.told = message
		g.groupEvent(group, corev1.EventTypeWarning, reason, message)
	}
}

// failGroup reports an error in the status of a group, and returns it. If the report fails, it returns
// that error instead, which is retried sooner.
//
// Upstream: external-snapshotter pkg/common-controller updateGroupSnapshotErrorStatusWithEvent (8.7.0).
func (g *groups) failGroup(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, setNotReady bool, reason, message string, err error,
) error {
	changed := *group
	changed.Status = &snapshotapi.GroupSnapshotStatus{}
	if was := group.Status; was != nil {
		if was.Error != nil && was.Error.Message != nil && *was.Error.Message == message {
			return err
		}
		*changed.Status = *was
	}
	now := metav1.NewTime(g.cfg.Process.Now())
	changed.Status.Error = &snapshotapi.Error{Time: &now, Message: &message}
	if setNotReady {
		ready := false
		changed.Status.ReadyToUse = &ready
	}
	written, failed := g.groupClient.UpdateStatus(ctx, &changed)
	g.groupEvent(group, corev1.EventTypeWarning, reason, message)
	if _, failed = g.wroteGroup(group, written, failed); failed != nil {
		return failed
	}
	return err
}

// copyGroupStatus copies the status of a content to its group.
//
// Differs: upstream reads the group from the API server first. A conflict is not reported here.
//
// Upstream: external-snapshotter pkg/common-controller updateGroupSnapshotStatus (8.7.0).
func (g *groups) copyGroupStatus(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) error {
	status := groupStatusFrom(group.Status, content)
	if equality.Semantic.DeepEqual(group.Status, status) {
		return nil
	}
	changed := *group
	changed.Status = status
	written, err := g.groupClient.UpdateStatus(ctx, &changed)
	conflict := apierrors.IsConflict(err)
	if written, err = g.wroteGroup(group, written, err); err != nil {
		if conflict {
			return err
		}
		return g.failGroup(ctx, group, sameReady, "GroupSnapshotStatusUpdateFailed",
			fmt.Sprintf("GroupSnapshot status update failed, %v", err), err)
	}
	key := keyOf(group).String()
	if written.Status.CreationTime != nil && (group.Status == nil || group.Status.CreationTime == nil) {
		g.groupEvent(group, corev1.EventTypeNormal, "GroupSnapshotCreated",
			fmt.Sprintf("GroupSnapshot %s was successfully created by the CSI driver.", key))
	}
	if written.IsReady() && !group.IsReady() {
		g.groupEvent(group, corev1.EventTypeNormal, "GroupSnapshotReady", fmt.Sprintf("GroupSnapshot %s is ready to use.", key))
	}
	return nil
}

// groupStatusFrom returns the status of a group with what its content reports. Its content and time of
// creation, once set, stay.
func groupStatusFrom(
	before *snapshotapi.GroupSnapshotStatus, content *snapshotapi.VolumeGroupSnapshotContent,
) *snapshotapi.GroupSnapshotStatus {
	status, reported := &snapshotapi.GroupSnapshotStatus{}, &snapshotapi.GroupContentStatus{}
	if before != nil {
		*status = *before
	}
	if content.Status != nil {
		reported = content.Status
	}
	if status.BoundVolumeGroupSnapshotContentName == nil {
		name := content.Name
		status.BoundVolumeGroupSnapshotContentName = &name
	}
	if status.CreationTime == nil {
		status.CreationTime = reported.CreationTime
	}
	ready := reported.ReadyToUse != nil && *reported.ReadyToUse
	status.ReadyToUse = &ready
	status.Error = reported.Error
	return status
}

func (g *groups) patchGroup(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, ops ...patchOp,
) (*snapshotapi.VolumeGroupSnapshot, error) {
	patched, err := g.groupClient.Patch(ctx, group.Namespace, group.Name, types.JSONPatchType, encode(group.UID, ops))
	return g.wroteGroup(group, patched, err)
}

// wroteGroup returns the result of a write.
func (g *groups) wroteGroup(
	before, after *snapshotapi.VolumeGroupSnapshot, err error,
) (*snapshotapi.VolumeGroupSnapshot, error) {
	if err != nil {
		return before, updateError(keyOf(before).String(), err)
	}
	g.ownGroup.note(after)
	return after, nil
}

func (g *groups) patchGroupContent(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent, ops ...patchOp,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	patched, err := g.groupContentClient.Patch(ctx, "", content.Name, types.JSONPatchType, encode(content.UID, ops))
	if err != nil {
		return content, err
	}
	g.ownGroupContent.note(patched)
	return patched, nil
}
