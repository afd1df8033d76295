package snapshot

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// groupClassResource is the name of classes of groups in errors, as upstream's lister has it.
var groupClassResource = schema.GroupResource{Group: snapshotapi.GroupGroup, Resource: "volumegroupsnapshotclass"}

// groupClass returns a class of groups from the cache.
func (g *groups) groupClass(name string) (*snapshotapi.VolumeGroupSnapshotClass, error) {
	class := g.groupClasses.Get("", name)
	if class == nil {
		return nil, unmet("%v", apierrors.NewNotFound(groupClassResource, name))
	}
	return class, nil
}

// syncGroupWithClass syncs a group whose class exists. It first sets the default class of a group without
// one. A group that is being deleted needs no class.
//
// Upstream: external-snapshotter pkg/common-controller syncGroupSnapshotByKey,
// checkAndUpdateGroupSnapshotClass (8.7.0).
func (g *groups) syncGroupWithClass(ctx context.Context, group *snapshotapi.VolumeGroupSnapshot) error {
	if group.DeletionTimestamp != nil {
		return g.syncDeletedGroup(ctx, group)
	}
	if name := group.Spec.VolumeGroupSnapshotClassName; name != nil {
		if _, err := g.groupClass(*name); err != nil {
			return g.failGroup(ctx, group, sameReady, "GetGroupSnapshotClassFailed",
				fmt.Sprintf("failed to get group snapshot class with error %v", err), err)
		}
		return g.syncGroup(ctx, group)
	}
	group, err := g.setDefaultGroupClass(ctx, group)
	if err != nil {
		return g.failGroup(ctx, group, sameReady, "SetDefaultGroupSnapshotClassFailed",
			fmt.Sprintf("Failed to set default group snapshot class with error %v", err), err)
	}
	return g.syncGroup(ctx, group)
}

// setDefaultGroupClass sets the class of a group of claims: the only default class of the driver of the
// first claim's volume.
//
// Upstream: external-snapshotter pkg/common-controller SetDefaultGroupSnapshotClass,
// pvDriverFromGroupSnapshot (8.7.0).
func (g *groups) setDefaultGroupClass(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshot, error) {
	if group.Spec.Source.VolumeGroupSnapshotContentName != nil || group.Spec.Source.Selector == nil {
		return group, nil
	}
	volumes, err := g.groupVolumes(ctx, group)
	if err != nil {
		return group, err
	}
	if volumes[0].Spec.CSI == nil {
		return group, unmet("snapshotting non-CSI volumes is not supported, group snapshot:%s/%s", group.Namespace, group.Name)
	}
	var defaults []string
	for _, class := range g.groupClasses.List("") {
		if class.Annotations[snapshotapi.GroupDefaultClass] == "true" && class.Driver == volumes[0].Spec.CSI.Driver {
			defaults = append(defaults, class.Name)
		}
	}
	switch len(defaults) {
	case 0:
		return group, unmet("cannot find default group snapshot class")
	case 1:
		return g.patchGroup(ctx, group, patchOp{"replace", "/spec/volumeGroupSnapshotClassName", defaults[0]})
	default:
		return group, unmet("%d default snapshot classes were found", len(defaults))
	}
}

// syncGroup does what a group with its class needs.
//
// Upstream: external-snapshotter pkg/common-controller syncGroupSnapshot (8.7.0).
func (g *groups) syncGroup(ctx context.Context, group *snapshotapi.VolumeGroupSnapshot) error {
	source := &group.Spec.Source
	if (source.Selector == nil) == (source.VolumeGroupSnapshotContentName == nil) {
		const text = "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified"
		return g.failGroup(ctx, group, notReady, "GroupSnapshotValidationError", text, unmet(text))
	}
	content, err := g.groupContentOf(ctx, group)
	if err == nil && content != nil && group.BoundContent() != "" {
		group, err = g.protectGroup(ctx, group)
	}
	if err != nil {
		g.groupEventOnce(group, "GroupSnapshotFinalizerError", "Failed to check and update group snapshot: "+err.Error())
		return err
	}
	switch {
	case group.IsReady() && group.BoundContent() != "":
		return g.verifyGroup(ctx, group)
	case source.VolumeGroupSnapshotContentName != nil:
		return g.bindExistingGroup(ctx, group, content)
	default:
		return g.bindCreatedGroup(ctx, group, content)
	}
}

// protectGroup adds the finalizer that keeps a group until its content is gone, unless the group has it.
//
// Upstream: external-snapshotter pkg/common-controller checkandAddGroupSnapshotFinalizers (8.7.0).
func (g *groups) protectGroup(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshot, error) {
	if slices.Contains(group.Finalizers, snapshotapi.GroupBoundFinalizer) {
		return group, nil
	}
	return g.patchGroup(ctx, group, addFinalizers(group, snapshotapi.GroupBoundFinalizer)...)
}

// verifyGroup checks that the content of a ready group exists and points back.
//
// Upstream: external-snapshotter pkg/common-controller syncReadyGroupSnapshot (8.7.0).
func (g *groups) verifyGroup(ctx context.Context, group *snapshotapi.VolumeGroupSnapshot) error {
	content, err := g.findGroupContent(ctx, group.BoundContent())
	switch {
	case err != nil:
		return err
	case content == nil:
		return g.failGroup(ctx, group, notReady, "GroupSnapshotContentMissing", "VolumeGroupSnapshotContent is missing", nil)
	case !content.PointsTo(group):
		return g.failGroup(ctx, group, notReady, "GroupSnapshotMisbound",
			"VolumeGroupSnapshotContent is not bound to the VolumeGroupSnapshot correctly", nil)
	}
	return nil
}

// findGroupContent returns a content, nil if it does not exist. The API server is asked for a content
// that this process has created and that the cache lacks.
func (g *groups) findGroupContent(ctx context.Context, name string) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	content := g.groupContents.Get("", name)
	if content != nil || !g.ownGroupContent.has("", name) {
		return content, nil
	}
	return g.readGroupContent(ctx, name)
}

// readGroupContent returns a content of the API server, nil if it does not exist.
func (g *groups) readGroupContent(ctx context.Context, name string) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	content, err := g.groupContentClient.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // it does not exist
	}
	return content, err
}

// groupContentOf returns the content of a group by its source, nil if it does not exist. It fails for a
// content of the other kind of source, or of another group.
//
// Upstream: external-snapshotter pkg/common-controller getPreprovisionedGroupSnapshotContentFromStore,
// getDynamicallyProvisionedGroupContentFromStore (8.7.0).
func (g *groups) groupContentOf(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	existing := group.Spec.Source.VolumeGroupSnapshotContentName
	name := snapshotapi.GroupContentName(group)
	if existing != nil {
		name = *existing
		if name == "" {
			return nil, unmet("empty VolumeGroupSnapshotContentName for group snapshot %s", keyOf(group))
		}
	}
	content, err := g.findGroupContent(ctx, name)
	if err != nil || content == nil {
		return nil, err
	}
	ref := &content.Spec.VolumeGroupSnapshotRef
	switch {
	case existing != nil && content.Spec.Source.GroupSnapshotHandles == nil:
		return nil, g.failGroup(ctx, group, notReady, "GroupSnapshotContentMismatch",
			"VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
			unmet("group snapshot %s expects a pre-provisioned VolumeGroupSnapshotContent %s but gets a dynamically provisioned one",
				keyOf(group), name))
	case existing == nil && content.Spec.Source.GroupSnapshotHandles != nil:
		return nil, g.failGroup(ctx, group, notReady, "GroupSnapshotContentMismatch",
			"VolumeGroupSnapshotContent "+name+" is pre-provisioned while expecting a dynamically provisioned one",
			unmet("group snapshot %s expects a dynamically provisioned VolumeGroupSnapshotContent %s but gets a pre-provisioned one",
				keyOf(group), name))
	case !content.PointsTo(group) && !(existing != nil && ref.UID == "" && ref.Namespace == group.Namespace && ref.Name == group.Name):
		text := fmt.Sprintf("VolumeGroupSnapshotContent [%s] is bound to a different group snapshot", name)
		return nil, g.failGroup(ctx, group, notReady, "GroupSnapshotContentMisbound", text, unmet("%s", text))
	}
	return content, nil
}

// bindExistingGroup binds a group to a content that its user has named, nil if it does not exist.
//
// Upstream: external-snapshotter pkg/common-controller syncUnreadyGroupSnapshot (8.7.0).
func (g *groups) bindExistingGroup(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) error {
	if content == nil {
		return g.failGroup(ctx, group, notReady, "GroupSnapshotContentMissing", "VolumeGroupSnapshotContent is missing",
			unmet("group snapshot %s requests an non-existing group snapshot content %s", keyOf(group),
				*group.Spec.Source.VolumeGroupSnapshotContentName))
	}
	bound, err := g.completeGroupRef(ctx, group, content)
	if err != nil {
		return g.failGroup(ctx, group, notReady, "GroupSnapshotBindFailed",
			fmt.Sprintf("GroupSnapshot failed to bind VolumeGroupSnapshotContent, %v", err),
			fmt.Errorf("group snapshot %s is bound, but VolumeGroupSnapshotContent %s is not bound to the VolumeGroupSnapshot correctly, %w",
				keyOf(group), content.Name, err))
	}
	return g.copyGroupStatus(ctx, group, bound)
}

// completeGroupRef writes the UID of a group into the content that names it, and its class if the content
// has none.
//
// Differs: upstream repeats the write at each sync of a content without a class.
//
// Upstream: external-snapshotter pkg/common-controller checkAndBindGroupSnapshotContent (8.7.0).
func (g *groups) completeGroupRef(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	var ops []patchOp
	if content.Spec.VolumeGroupSnapshotRef.UID == "" {
		ops = append(ops, patchOp{"replace", "/spec/volumeGroupSnapshotRef/uid", string(group.UID)})
	}
	class := group.Spec.VolumeGroupSnapshotClassName
	if class != nil && (len(ops) > 0 || content.Spec.VolumeGroupSnapshotClassName == nil) {
		ops = append(ops, patchOp{"replace", "/spec/volumeGroupSnapshotClassName", *class})
	}
	if len(ops) == 0 {
		return content, nil
	}
	return g.patchGroupContent(ctx, content, ops...)
}

// bindCreatedGroup creates the content of a group of claims, unless it exists, then its members once the
// driver has taken their snapshots, and copies the content's status.
//
// Upstream: external-snapshotter pkg/common-controller syncUnreadyGroupSnapshot,
// bindandUpdateVolumeGroupSnapshot (8.7.0).
func (g *groups) bindCreatedGroup(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) error {
	if content == nil {
		created, held, err := g.createGroupContent(ctx, group)
		if err != nil {
			return g.failGroup(ctx, group, notReady, "GroupSnapshotContentCreationFailed",
				fmt.Sprintf("failed to create group snapshot content with error %v", err), err)
		}
		return g.copyGroupStatus(ctx, held, created)
	}
	if err := g.createMembers(ctx, group, content); err != nil {
		return err
	}
	return g.copyGroupStatus(ctx, group, content)
}

// syncGroupContent protects a bound content, and queues its group if that lacks what the content reports.
//
// Upstream: external-snapshotter pkg/common-controller syncGroupSnapshotContent,
// needsUpdateGroupSnapshotStatus (8.7.0).
func (g *groups) syncGroupContent(ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent) error {
	ref, source := &content.Spec.VolumeGroupSnapshotRef, &content.Spec.Source
	switch {
	case (source.GroupSnapshotHandles == nil) == (len(source.VolumeHandles) == 0):
		g.cfg.Recorder.Event(snapshotapi.GroupContents.Unstructured(content), corev1.EventTypeWarning, "GroupContentValidationError",
			"Exactly one of GroupSnapshotHandles and VolumeHandles should be specified")
		return nil // until it changes
	case ref.UID == "":
		return nil // the sync of the group binds it
	case content.DeletionTimestamp == nil && !slices.Contains(content.Finalizers, snapshotapi.GroupContentFinalizer):
		if _, err := g.patchGroupContent(ctx, content, addFinalizers(content, snapshotapi.GroupContentFinalizer)...); err != nil {
			return updateError(content.Name, err)
		}
		return nil
	}
	group := g.groupSnapshots.Get(ref.Namespace, ref.Name)
	if group == nil || group.UID != ref.UID {
		return nil
	}
	if content.Status != nil && !equality.Semantic.DeepEqual(group.Status, groupStatusFrom(group.Status, content)) {
		g.groupQueue.Add(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
	return nil
}
