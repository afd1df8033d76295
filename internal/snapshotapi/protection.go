package snapshotapi

import corev1 "k8s.io/api/core/v1"

// The finalizers of snapshots and claims, which the snapshot controller writes.
//
// Upstream: external-snapshotter pkg/utils (8.7.0).
const (
	SourceFinalizer      = annotationPrefix + "volumesnapshot-as-source-protection"
	BoundFinalizer       = annotationPrefix + "volumesnapshot-bound-protection"
	ClaimSourceFinalizer = annotationPrefix + "pvc-as-source-protection" // of a claim
)

// The finalizers of external-provisioner: of a snapshot while a volume is made from it, and of a claim while
// its volume is cloned.
//
// Upstream: external-provisioner pkg/controller (6.3.0).
const (
	ProvisionerFinalizer = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
	CloneFinalizer       = "provisioner.storage.kubernetes.io/cloning-protection"
)

// DefaultClass is the annotation of the default class of a driver: "true".
const DefaultClass = annotationPrefix + "is-default-class"

// ContentName returns the name of the content that is created for a snapshot of a claim.
//
// Upstream: external-snapshotter pkg/utils GetDynamicSnapshotContentNameForSnapshot (8.7.0).
func ContentName(snapshot *VolumeSnapshot) string { return "snapcontent-" + string(snapshot.UID) }

// IsReady reports whether the snapshot is ready to use.
func (s *VolumeSnapshot) IsReady() bool {
	return s.Status != nil && s.Status.ReadyToUse != nil && *s.Status.ReadyToUse
}

// IsBound reports whether the status of the snapshot names its content.
func (s *VolumeSnapshot) IsBound() bool { return s.BoundContent() != "" }

// BoundContent returns the name of the content in the status of the snapshot, "" for none.
func (s *VolumeSnapshot) BoundContent() string {
	if s.Status == nil || s.Status.BoundVolumeSnapshotContentName == nil {
		return ""
	}
	return *s.Status.BoundVolumeSnapshotContentName
}

// SourceClaim returns the name of the claim of which the snapshot is taken, "" for none.
func (s *VolumeSnapshot) SourceClaim() string {
	if s.Spec.Source.PersistentVolumeClaimName == nil {
		return ""
	}
	return *s.Spec.Source.PersistentVolumeClaimName
}

// PointsTo reports whether the content is bound to the snapshot, by name and UID.
//
// Upstream: external-snapshotter pkg/utils IsVolumeSnapshotRefSet (8.7.0).
func (c *VolumeSnapshotContent) PointsTo(snapshot *VolumeSnapshot) bool {
	ref := &c.Spec.VolumeSnapshotRef
	return ref.Namespace == snapshot.Namespace && ref.Name == snapshot.Name && ref.UID == snapshot.UID
}

// RestoredFrom returns the name of the snapshot of its namespace that is the data source of a claim, "" for
// none.
func RestoredFrom(claim *corev1.PersistentVolumeClaim) string {
	source := claim.Spec.DataSource
	if source == nil || source.Kind != Snapshots.Name || source.APIGroup == nil || *source.APIGroup != Group {
		return ""
	}
	return source.Name
}

// DataSource returns the data source of a claim that is made from a snapshot of its namespace.
func DataSource(snapshot string) *corev1.TypedLocalObjectReference {
	group := Group
	return &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: Snapshots.Name, Name: snapshot}
}
