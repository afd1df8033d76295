package snapshotter

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// writeStatus writes into a content's status what a driver has reported, if it is news.
//
// Upstream: external-snapshotter pkg/sidecar-controller updateSnapshotContentStatus (8.7.0).
func (c *Controller) writeStatus(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent, found snapshot,
) (*snapshotapi.VolumeSnapshotContent, error) {
	stored, err := c.contents.read(ctx, content.Name)
	if err != nil {
		return nil, fmt.Errorf("error get snapshot content %s from api server: %w", content.Name, err)
	}
	if found.created.IsZero() {
		found.created = c.cfg.Process.Now()
	}
	status, changed := withSnapshot(stored.Status, found)
	if !changed {
		return stored, nil
	}
	return c.contents.patchStatus(ctx, stored, stored.Status, status)
}

// withSnapshot returns a content's status with what a driver has reported, and whether it differs. What
// is known already stays, but for whether the snapshot is ready. Its error ends when it becomes ready.
func withSnapshot(was *snapshotapi.ContentStatus, found snapshot) (is *snapshotapi.ContentStatus, changed bool) {
	is = &snapshotapi.ContentStatus{}
	if was != nil {
		*is = *was
	}
	changed = was == nil
	if is.SnapshotHandle == nil {
		is.SnapshotHandle, changed = &found.handle, true
	}
	if is.ReadyToUse == nil || *is.ReadyToUse != found.ready {
		is.ReadyToUse, changed = &found.ready, true
		if found.ready {
			is.Error = nil
		}
	}
	if is.CreationTime == nil {
		is.CreationTime, changed = ptr.To(found.created.UnixNano()), true
	}
	if is.RestoreSize == nil && found.size > 0 {
		is.RestoreSize, changed = &found.size, true
	}
	if is.VolumeGroupSnapshotHandle == nil && found.group != "" {
		is.VolumeGroupSnapshotHandle, changed = &found.group, true
	}
	return is, changed
}

// sanitize returns the metadata of an object without the changes that are the snapshotter's own, or of
// no concern to it.
func sanitize(before, after metav1.ObjectMeta, own string) metav1.ObjectMeta {
	is := after
	is.ResourceVersion, is.ManagedFields, is.Finalizers = before.ResourceVersion, before.ManagedFields, before.Finalizers
	is.Annotations = map[string]string{}
	for annotation, value := range after.Annotations {
		if annotation != own {
			is.Annotations[annotation] = value
		}
	}
	if value, had := before.Annotations[own]; had {
		is.Annotations[own] = value
	}
	return is
}
