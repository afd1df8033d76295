package snapshotapi

// The annotations of contents.
//
// Upstream: external-snapshotter pkg/utils (8.7.0).
const (
	annotationPrefix      = "snapshot.storage.kubernetes.io/"
	groupAnnotationPrefix = "groupsnapshot.storage.kubernetes.io/"

	// BeingCreated says that a request to create the snapshot may have had its effect, or may still
	// get it. The sidecar writes it.
	BeingCreated = annotationPrefix + "volumesnapshot-being-created"
	// BeingDeleted says that the snapshot of a deleted content may be removed. The snapshot
	// controller writes it.
	BeingDeleted          = annotationPrefix + "volumesnapshot-being-deleted"
	SecretName            = annotationPrefix + "deletion-secret-name" // of all requests but lists
	SecretNamespace       = annotationPrefix + "deletion-secret-namespace"
	GroupBeingCreated     = groupAnnotationPrefix + "volumegroupsnapshot-being-created"
	GroupBeingDeleted     = groupAnnotationPrefix + "volumegroupsnapshot-being-deleted"
	GroupSecretName       = groupAnnotationPrefix + "deletion-secret-name"
	GroupSecretNamespace  = groupAnnotationPrefix + "deletion-secret-namespace"
	GroupHandleAnnotation = GroupGroup + "/volumeGroupSnapshotHandle" // of a member of a group
)

// The finalizers.
//
// Upstream: external-snapshotter pkg/utils (8.7.0).
const (
	ContentFinalizer      = annotationPrefix + "volumesnapshotcontent-bound-protection"
	GroupContentFinalizer = groupAnnotationPrefix + "volumegroupsnapshotcontent-bound-protection"
)
