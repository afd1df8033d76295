package snapshot

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// classResource is the name of classes in errors, as upstream's lister has it.
var classResource = schema.GroupResource{Group: snapshotapi.Group, Resource: "volumesnapshotclass"}

// class returns a class from the cache.
func (c *controller) class(name string) (*snapshotapi.VolumeSnapshotClass, error) {
	class := c.classes.Get("", name)
	if class == nil {
		return nil, unmet("%v", apierrors.NewNotFound(classResource, name))
	}
	return class, nil
}

// syncWithClass syncs a snapshot whose class exists. It first sets the default class of a snapshot without
// one. A snapshot that is being deleted needs no class.
//
// Upstream: external-snapshotter pkg/common-controller syncSnapshotByKey, checkAndUpdateSnapshotClass
// (8.7.0).
func (c *controller) syncWithClass(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	if name := snapshot.Spec.VolumeSnapshotClassName; name != nil {
		if _, err := c.class(*name); err != nil {
			failed := c.fail(ctx, snapshot, sameReady, "GetSnapshotClassFailed",
				fmt.Sprintf("Failed to get snapshot class with error %v", err), err)
			if snapshot.DeletionTimestamp == nil {
				return failed
			}
			if c.ownSnapshot.isNewer(snapshot) {
				return nil // the report will be delivered
			}
		}
		return c.syncSnapshot(ctx, snapshot)
	}
	snapshot, err := c.setDefaultClass(ctx, snapshot)
	if err != nil {
		return c.fail(ctx, snapshot, sameReady, "SetDefaultSnapshotClassFailed",
			fmt.Sprintf("Failed to set default snapshot class with error %v", err), err)
	}
	return c.syncSnapshot(ctx, snapshot)
}

// setDefaultClass sets the class of a snapshot of a claim: the only default class of the driver of the
// claim's volume.
//
// Differs: upstream continues without a class if the write fails, and reports its lack.
//
// Upstream: external-snapshotter pkg/common-controller SetDefaultSnapshotClass, pvDriverFromSnapshot
// (8.7.0).
func (c *controller) setDefaultClass(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshot, error) {
	if snapshot.Spec.Source.VolumeSnapshotContentName != nil || snapshot.IsMember() {
		return snapshot, nil
	}
	volume, err := c.sourceVolume(ctx, snapshot)
	if err != nil {
		return snapshot, err
	}
	if volume.Spec.CSI == nil {
		return snapshot, unmet("snapshotting non-CSI volumes is not supported, snapshot:%s/%s", snapshot.Namespace, snapshot.Name)
	}
	var defaults []string
	for _, class := range c.classes.List("") {
		if class.Annotations[snapshotapi.DefaultClass] == "true" && class.Driver == volume.Spec.CSI.Driver {
			defaults = append(defaults, class.Name)
		}
	}
	switch len(defaults) {
	case 0:
		return snapshot, unmet("cannot find default snapshot class")
	case 1:
		return c.patchSnapshot(ctx, snapshot, patchOp{"replace", "/spec/volumeSnapshotClassName", defaults[0]})
	default:
		return snapshot, unmet("%d default snapshot classes were found", len(defaults))
	}
}
