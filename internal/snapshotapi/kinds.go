package snapshotapi

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/customresource"
)

// The groups of the API.
const (
	Group      = "snapshot.storage.k8s.io"
	GroupGroup = "groupsnapshot.storage.k8s.io" // of snapshots of several volumes
)

var (
	version      = schema.GroupVersion{Group: Group, Version: "v1"}
	groupVersion = schema.GroupVersion{Group: GroupGroup, Version: "v1"}
)

// Shown returns the resources whose objects are shown next to claims and volumes: all but classes.
func Shown() []string {
	return []string{Snapshots.CommitName(), Contents.CommitName(), GroupSnapshots.CommitName(), GroupContents.CommitName()}
}

// The kinds of the API.
var (
	Snapshots = customresource.Kind[VolumeSnapshot, *VolumeSnapshot]{
		Resource: version.WithResource("volumesnapshots"), Name: "VolumeSnapshot",
	}
	Contents = customresource.Kind[VolumeSnapshotContent, *VolumeSnapshotContent]{
		Resource: version.WithResource("volumesnapshotcontents"), Name: "VolumeSnapshotContent",
	}
	Classes = customresource.Kind[VolumeSnapshotClass, *VolumeSnapshotClass]{
		Resource: version.WithResource("volumesnapshotclasses"), Name: "VolumeSnapshotClass",
	}
	GroupSnapshots = customresource.Kind[VolumeGroupSnapshot, *VolumeGroupSnapshot]{
		Resource: groupVersion.WithResource("volumegroupsnapshots"), Name: "VolumeGroupSnapshot",
	}
	GroupContents = customresource.Kind[VolumeGroupSnapshotContent, *VolumeGroupSnapshotContent]{
		Resource: groupVersion.WithResource("volumegroupsnapshotcontents"), Name: "VolumeGroupSnapshotContent",
	}
	GroupClasses = customresource.Kind[VolumeGroupSnapshotClass, *VolumeGroupSnapshotClass]{
		Resource: groupVersion.WithResource("volumegroupsnapshotclasses"), Name: "VolumeGroupSnapshotClass",
	}
)
