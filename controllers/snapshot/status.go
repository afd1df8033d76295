package snapshot

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/snapshotapi"
)

func (c *controller) event(snapshot *snapshotapi.VolumeSnapshot, eventType, reason, message string) {
	c.cfg.Recorder.Event(snapshotapi.Snapshots.Unstructured(snapshot), eventType, reason, message)
}

// eventOnce records a warning about a snapshot, unless it is the last one of its wait.
//
// Differs: upstream records a warning at each retry.
func (c *controller) eventOnce(snapshot *snapshotapi.VolumeSnapshot, reason, message string) {
	if one := c.waits.of(snapshot); one.told != message {
		one.told = message
		c.event(snapshot, corev1.EventTypeWarning, reason, message)
	}
}

// The last parameter of reportError.
const (
	notReady  = true  // the snapshot is not ready to use
	sameReady = false // readyToUse stays
)

// fail reports an error in the status of a snapshot, and returns it. If the report fails, it returns
// that error instead, which is retried sooner.
func (c *controller) fail(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, setNotReady bool, reason, message string, err error,
) error {
	if failed := c.reportError(ctx, snapshot, setNotReady, reason, message); failed != nil {
		return failed
	}
	return err
}

// reportError writes an error into the status of a snapshot and records an event, unless the status has
// it.
//
// Differs: the event of an error that cannot be written is about the snapshot; upstream's is about an
// object without a name.
//
// Upstream: external-snapshotter pkg/common-controller updateSnapshotErrorStatusWithEvent (8.7.0).
func (c *controller) reportError(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, setNotReady bool, reason, message string,
) error {
	changed := *snapshot
	changed.Status = &snapshotapi.SnapshotStatus{}
	if was := snapshot.Status; was != nil {
		if was.Error != nil && was.Error.Message != nil && *was.Error.Message == message {
			return nil
		}
		*changed.Status = *was
	}
	now := metav1.NewTime(c.cfg.Process.Now())
	changed.Status.Error = &snapshotapi.Error{Time: &now, Message: &message}
	if setNotReady {
		ready := false
		changed.Status.ReadyToUse = &ready
	}
	written, err := c.snapshotClient.UpdateStatus(ctx, &changed)
	c.event(snapshot, corev1.EventTypeWarning, reason, message)
	_, err = c.wroteSnapshot(snapshot, written, err)
	return err
}

// copyStatus copies the status of a content to its snapshot.
//
// Differs: upstream reads the snapshot from the API server first, and writes the status again if it has
// an error that the content has, too. A conflict is not reported here.
//
// Upstream: external-snapshotter pkg/common-controller updateSnapshotStatus (8.7.0).
func (c *controller) copyStatus(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent,
) error {
	status := statusFrom(snapshot.Status, content)
	group, err := c.groupOfContent(snapshot, content)
	if err != nil {
		return c.fail(ctx, snapshot, sameReady, "SnapshotStatusUpdateFailed",
			fmt.Sprintf("Snapshot status update failed, %v", err), err)
	}
	if group != "" && status.VolumeGroupSnapshotName == nil {
		status.VolumeGroupSnapshotName = &group
	}
	if equality.Semantic.DeepEqual(snapshot.Status, status) {
		return nil
	}
	key := keyOf(snapshot).String()
	if status.CreationTime != nil && (snapshot.Status == nil || snapshot.Status.CreationTime == nil) {
		c.event(snapshot, corev1.EventTypeNormal, "SnapshotCreated",
			fmt.Sprintf("Snapshot %s was successfully created by the CSI driver.", key))
	}
	changed := *snapshot
	changed.Status = status
	if changed.IsReady() && !snapshot.IsReady() {
		c.event(snapshot, corev1.EventTypeNormal, "SnapshotReady", fmt.Sprintf("Snapshot %s is ready to use.", key))
	}
	written, err := c.snapshotClient.UpdateStatus(ctx, &changed)
	conflict := apierrors.IsConflict(err)
	if _, err = c.wroteSnapshot(snapshot, written, err); err != nil && !conflict {
		return c.fail(ctx, snapshot, sameReady, "SnapshotStatusUpdateFailed",
			fmt.Sprintf("Snapshot status update failed, %v", err), err)
	}
	return err
}

// statusFrom returns the status of a snapshot with what its content reports. Its content and time of
// creation, once set, stay; so does its size, unless it is 0.
func statusFrom(
	before *snapshotapi.SnapshotStatus, content *snapshotapi.VolumeSnapshotContent,
) *snapshotapi.SnapshotStatus {
	status, reported := &snapshotapi.SnapshotStatus{}, &snapshotapi.ContentStatus{}
	if before != nil {
		*status = *before
	}
	if content.Status != nil {
		reported = content.Status
	}
	if status.BoundVolumeSnapshotContentName == nil {
		name := content.Name
		status.BoundVolumeSnapshotContentName = &name
	}
	if status.CreationTime == nil && reported.CreationTime != nil {
		at := metav1.NewTime(time.Unix(0, *reported.CreationTime))
		status.CreationTime = &at
	}
	ready := reported.ReadyToUse != nil && *reported.ReadyToUse
	status.ReadyToUse = &ready
	size := reported.RestoreSize
	if size != nil && (status.RestoreSize == nil || status.RestoreSize.IsZero() && *size > 0) {
		status.RestoreSize = resource.NewQuantity(*size, resource.BinarySI)
	}
	status.Error = reported.Error
	return status
}
