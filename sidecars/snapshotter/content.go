package snapshotter

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// The reasons of a snapshotter's events.
//
// Upstream: external-snapshotter pkg/sidecar-controller (8.7.0).
const (
	reasonCreate = "SnapshotCreationFailed"
	reasonCheck  = "SnapshotContentCheckandUpdateFailed"
	reasonDelete = "SnapshotDeleteError"
)

// An action is what a content needs next.
type action int

const (
	idle   action = iota
	create        // request the snapshot for the first time
	retry         // request it again: it is not ready, or the last request has failed
	list          // look up a snapshot that exists
	unmark        // remove the annotation of a request whose result is known
	remove        // remove the snapshot, and let go of the content
)

// isOf reports whether a content is one of a driver's.
//
// Upstream: external-snapshotter pkg/sidecar-controller isDriverMatch (8.7.0).
func isOf(driverName string, content *snapshotapi.VolumeSnapshotContent) bool {
	source := content.Spec.Source
	return content.Spec.Driver == driverName && (source.VolumeHandle != nil || source.SnapshotHandle != nil)
}

// decide returns what a content needs next.
//
// Differs: the content of a member of a group without a handle has nothing to do. Upstream polls it.
//
// Upstream: external-snapshotter pkg/sidecar-controller syncContent,
// checkandUpdateContentStatusOperation (8.7.0).
func decide(content *snapshotapi.VolumeSnapshotContent) action {
	status := content.Status
	_, isMember := content.Annotations[snapshotapi.GroupHandleAnnotation]
	_, isMarked := content.Annotations[snapshotapi.BeingCreated]
	switch {
	case isRemovable(content):
		return remove
	case content.Spec.Source.VolumeHandle != nil && status == nil && !isMember:
		return create
	case isReady(content) && isMarked:
		return unmark
	case isReady(content):
		return idle
	case content.Spec.Source.SnapshotHandle != nil,
		status != nil && status.VolumeGroupSnapshotHandle != nil && status.SnapshotHandle != nil:
		return list
	case isMember:
		return idle
	default:
		return retry
	}
}

// isRemovable reports whether a deleted content may be let go: it never belonged to a snapshot, or the
// snapshot controller agrees and no request for a snapshot is without result.
//
// Upstream: external-snapshotter pkg/sidecar-controller shouldDelete (8.7.0).
func isRemovable(content *snapshotapi.VolumeSnapshotContent) bool {
	_, isMarked := content.Annotations[snapshotapi.BeingCreated]
	_, isAgreed := content.Annotations[snapshotapi.BeingDeleted]
	isUnbound := content.Spec.Source.SnapshotHandle != nil && content.Spec.VolumeSnapshotRef.UID == ""
	return content.DeletionTimestamp != nil && (isUnbound || !isMarked && isAgreed)
}

func isReady(content *snapshotapi.VolumeSnapshotContent) bool {
	return content.Status != nil && ptr.Deref(content.Status.ReadyToUse, false)
}

// needsSync reports whether a change of a content must be processed. before is nil for a new content.
// The snapshotter's own writes need none.
//
// Differs: upstream syncs every content that becomes ready, which here is known when it is written.
//
// Upstream: external-snapshotter pkg/utils ShouldEnqueueContentChange (8.7.0).
func needsSync(before, after *snapshotapi.VolumeSnapshotContent) bool {
	if decide(after) == idle {
		return false
	}
	if before == nil || decide(before) == idle {
		return true
	}
	is := *after
	is.ObjectMeta = sanitize(before.ObjectMeta, after.ObjectMeta, snapshotapi.BeingCreated)
	is.Status = before.Status
	return !equality.Semantic.DeepEqual(*before, is)
}

// syncContent does what a content needs next.
//
// Differs: a content is read before its request is repeated. If that fails, only the attempt is repeated;
// upstream repeats the request and reports that its result could not be written.
//
// Upstream: external-snapshotter pkg/sidecar-controller syncContent (8.7.0).
func (c *Controller) syncContent(ctx context.Context, k key) error {
	content := c.contents.get(k.name)
	if content == nil || !c.isMine(content) {
		return nil
	}
	if decide(content) == retry && !c.contents.isConfirmed(k.name) {
		// The cache of a process that has just started may be old: the content may be gone, with its
		// snapshot.
		var err error
		if content, err = c.contents.read(ctx, k.name); err != nil {
			return ignoreNotFound(err)
		}
	}
	switch decide(content) {
	case idle:
		return nil
	case create:
		return c.progress(ctx, content, reasonCreate, "Failed to create snapshot", c.createSnapshot)
	case retry:
		return c.progress(ctx, content, reasonCheck, "Failed to check and update snapshot content", c.createSnapshot)
	case list:
		return c.progress(ctx, content, reasonCheck, "Failed to check and update snapshot content", c.listSnapshot)
	case unmark:
		if _, err := c.contents.annotate(ctx, content, snapshotapi.BeingCreated, nil); err != nil {
			return err
		}
		return c.again(content.Name)
	case remove:
		return c.remove(ctx, content)
	}
	panic("unreachable")
}

// isMine reports whether the class of a content, if it exists, is one of the driver's.
func (c *Controller) isMine(content *snapshotapi.VolumeSnapshotContent) bool {
	if !isOf(c.cfg.DriverName, content) {
		return false
	}
	class := c.classes.Get("", ptr.Deref(content.Spec.VolumeSnapshotClassName, ""))
	return class == nil || class.Driver == c.cfg.DriverName
}

// progress brings a content nearer to a snapshot that is ready to use, and reports a failure.
//
// Upstream: external-snapshotter pkg/sidecar-controller createSnapshot, checkandUpdateContentStatus
// (8.7.0).
func (c *Controller) progress(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent, reason, prefix string,
	do func(context.Context, *snapshotapi.VolumeSnapshotContent) error,
) error {
	err := do(ctx, content)
	if err == nil {
		return c.again(content.Name)
	}
	if newest := c.contents.get(content.Name); newest != nil {
		content = newest
	}
	var was *snapshotapi.Error
	if content.Status != nil {
		was = content.Status.Error
	}
	c.contents.report(ctx, content, was, reason, fmt.Sprintf("%s: %v", prefix, err))
	return err
}

// again queues a content that was written and needs more.
func (c *Controller) again(name string) error {
	content := c.contents.get(name)
	if content == nil {
		return nil
	}
	return c.requeue(key{name: name}, decide(content))
}

// requeue queues a content for an action, at once or, if its snapshot is not ready, after a delay.
func (c *Controller) requeue(k key, next action) error {
	switch next {
	case idle:
		return nil
	case create, retry, list:
		return errNotReady
	default:
		c.queue.Add(k)
		return nil
	}
}
