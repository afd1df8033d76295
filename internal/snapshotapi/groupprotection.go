package snapshotapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The finalizers of groups and their members, which the snapshot controller writes.
//
// Upstream: external-snapshotter pkg/utils (8.7.0).
const (
	InGroupFinalizer    = annotationPrefix + "volumesnapshot-in-group-protection" // of a VolumeSnapshot
	GroupBoundFinalizer = groupAnnotationPrefix + "volumegroupsnapshot-bound-protection"
)

// GroupDefaultClass is the annotation of the default class of a driver's groups: "true".
const GroupDefaultClass = groupAnnotationPrefix + "is-default-class"

// GroupContentName returns the name of the content that is created for a group of claims.
//
// Upstream: external-snapshotter pkg/utils GetDynamicSnapshotContentNameForGroupSnapshot (8.7.0).
func GroupContentName(group *VolumeGroupSnapshot) string {
	return "groupsnapcontent-" + string(group.UID)
}

// IsReady reports whether the snapshots of the group are ready to use.
func (g *VolumeGroupSnapshot) IsReady() bool {
	return g.Status != nil && g.Status.ReadyToUse != nil && *g.Status.ReadyToUse
}

// BoundContent returns the name of the content in the status of the group, "" for none.
func (g *VolumeGroupSnapshot) BoundContent() string {
	if g.Status == nil || g.Status.BoundVolumeGroupSnapshotContentName == nil {
		return ""
	}
	return *g.Status.BoundVolumeGroupSnapshotContentName
}

// PointsTo reports whether the content is bound to the group, by name and UID.
//
// Upstream: external-snapshotter pkg/utils IsVolumeGroupSnapshotRefSet (8.7.0).
func (c *VolumeGroupSnapshotContent) PointsTo(group *VolumeGroupSnapshot) bool {
	ref := &c.Spec.VolumeGroupSnapshotRef
	return ref.Namespace == group.Namespace && ref.Name == group.Name && ref.UID == group.UID
}

// OwnerReference returns the reference of a member to the group.
//
// Upstream: external-snapshotter pkg/utils BuildVolumeGroupSnapshotOwnerReference (8.7.0).
func (g *VolumeGroupSnapshot) OwnerReference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: groupVersion.String(), Kind: GroupSnapshots.Name, Name: g.Name, UID: g.UID,
	}
}

// OwningGroup returns the name and UID of the group that owns the snapshot, "" for none.
//
// Upstream: external-snapshotter pkg/utils getVolumeGroupSnapshotParentObjectName (8.7.0).
func (s *VolumeSnapshot) OwningGroup() (name string, uid types.UID) {
	if s == nil {
		return "", ""
	}
	for _, owner := range s.OwnerReferences {
		if owner.Kind == GroupSnapshots.Name && owner.APIVersion == groupVersion.String() {
			return owner.Name, owner.UID
		}
	}
	return "", ""
}

// IsMember reports whether a group owns the snapshot.
//
// Upstream: external-snapshotter pkg/utils IsVolumeGroupSnapshotMember (8.7.0).
func (s *VolumeSnapshot) IsMember() bool {
	name, _ := s.OwningGroup()
	return name != ""
}

// GroupName returns the name of the group in the status of the snapshot, "" for none.
func (s *VolumeSnapshot) GroupName() string {
	if s == nil || s.Status == nil || s.Status.VolumeGroupSnapshotName == nil {
		return ""
	}
	return *s.Status.VolumeGroupSnapshotName
}
