package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// The prefixes of the names of a member's snapshot and content.
const (
	memberPrefix        = "snapshot-"
	memberContentPrefix = "snapcontent-"
)

// memberSnapshotName returns the name of a member, which depends on the group and on the volume.
//
// Upstream: external-snapshotter pkg/common-controller getSnapshotNameForVolumeGroupSnapshotContent
// (8.7.0).
func memberSnapshotName(group *snapshotapi.VolumeGroupSnapshot, volumeHandle string) string {
	return fmt.Sprintf("%s%x", memberPrefix, sha256.Sum256([]byte(string(group.UID)+volumeHandle)))
}

// memberContentName returns the name of the content of a member.
//
// Upstream: external-snapshotter pkg/common-controller
// getSnapshotContentNameForVolumeGroupSnapshotContent (8.7.0).
func memberContentName(snapshot *snapshotapi.VolumeSnapshot) string {
	return memberContentPrefix + strings.TrimPrefix(snapshot.Name, memberPrefix)
}

// createMembers creates a snapshot and a content for each snapshot that the driver has taken of a group,
// and binds them. What exists is kept.
//
// Differs: upstream looks the volumes up in its cache, and overwrites the status of members that exist.
//
// Upstream: external-snapshotter pkg/common-controller createSnapshotsForGroupSnapshotContent,
// getGroupSnapshotSecret, findPersistentVolumeByCSIDriverHandle (8.7.0).
func (g *groups) createMembers(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) error {
	status := content.Status
	if status == nil || len(status.VolumeSnapshotInfoList) == 0 || status.VolumeGroupSnapshotHandle == nil {
		return nil
	}
	if g.hasMembers(group, content) {
		return nil
	}
	secret, err := g.memberSecret(group, content)
	if err != nil {
		return err
	}
	volumes, err := g.cfg.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range status.VolumeSnapshotInfoList {
		m := &member{
			group: group, content: content, info: &status.VolumeSnapshotInfoList[i], secret: secret,
			volume: volumeOfHandle(volumes.Items, content.Spec.Driver, status.VolumeSnapshotInfoList[i].VolumeHandle),
		}
		if err := g.createMember(ctx, m); err != nil {
			return fmt.Errorf("createIndividualSnapshotForGroupSnapshot: %w", err)
		}
	}
	return nil
}

// hasMembers reports whether the cache has all members of a group, complete.
func (g *groups) hasMembers(
	group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) bool {
	return !slices.ContainsFunc(content.Status.VolumeSnapshotInfoList, func(info snapshotapi.SnapshotInfo) bool {
		snapshot := g.snapshots.Get(content.Spec.VolumeGroupSnapshotRef.Namespace, memberSnapshotName(group, info.VolumeHandle))
		if snapshot == nil {
			return true
		}
		member := g.contents.Get("", memberContentName(snapshot))
		return member == nil || !snapshot.IsBound() || !member.PointsTo(snapshot) ||
			member.Status == nil || member.Status.SnapshotHandle == nil
	})
}

// memberSecret returns the secret for the members of a group, nil for none.
func (g *groups) memberSecret(
	group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) (*corev1.SecretReference, error) {
	name := group.Spec.VolumeGroupSnapshotClassName
	if name == nil {
		return nil, unmet("getGroupSnapshotSecret: internal error: cannot find reference to volume group snapshot class")
	}
	class, err := g.groupClass(*name)
	if err != nil {
		return nil, restated(err, "getGroupSnapshotSecret: failed to get volume snapshot class %s: %q", *name, err)
	}
	values := map[string]string{groupContentToken: content.Name}
	secret, err := snapshotapi.GroupSnapshotterSecret.Reference(class.Parameters, values, values)
	if err != nil {
		return nil, unmet("getGroupSnapshotSecret: failed to get secret reference for group snapshot content %s: %v", content.Name, err)
	}
	return secret, nil
}

// volumeOfHandle returns the only volume of a driver with a handle, nil if there is none or several.
func volumeOfHandle(volumes []corev1.PersistentVolume, driver, handle string) *corev1.PersistentVolume {
	var found *corev1.PersistentVolume
	for i := range volumes {
		if csi := volumes[i].Spec.CSI; csi != nil && csi.Driver == driver && csi.VolumeHandle == handle {
			if found != nil {
				return nil
			}
			found = &volumes[i]
		}
	}
	return found
}

// A member is a snapshot of a group, and what its objects are made from.
type member struct {
	group   *snapshotapi.VolumeGroupSnapshot
	content *snapshotapi.VolumeGroupSnapshotContent
	info    *snapshotapi.SnapshotInfo
	secret  *corev1.SecretReference  // nil: none
	volume  *corev1.PersistentVolume // nil: unknown
}

// newContent returns the content of the member, which is bound to its snapshot.
//
// Upstream: external-snapshotter pkg/common-controller buildVolumeSnapshotContentSpecForGroupSnapshot
// (8.7.0).
func (m *member) newContent(snapshot *snapshotapi.VolumeSnapshot) *snapshotapi.VolumeSnapshotContent {
	content := &snapshotapi.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name:        memberContentName(snapshot),
			Annotations: map[string]string{snapshotapi.GroupHandleAnnotation: *m.content.Status.VolumeGroupSnapshotHandle},
		},
		Spec: snapshotapi.ContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{
				Kind: snapshotapi.Snapshots.Name, Namespace: snapshot.Namespace, Name: snapshot.Name, UID: snapshot.UID,
			},
			DeletionPolicy: m.content.Spec.DeletionPolicy,
			Driver:         m.content.Spec.Driver,
			Source:         snapshotapi.ContentSource{VolumeHandle: &m.info.VolumeHandle},
		},
	}
	if m.volume != nil {
		content.Spec.SourceVolumeMode = m.volume.Spec.VolumeMode
	}
	if m.secret != nil {
		content.Annotations[snapshotapi.SecretName] = m.secret.Name
		content.Annotations[snapshotapi.SecretNamespace] = m.secret.Namespace
	}
	return content
}

// newSnapshot returns the snapshot of the member. Its claim is "" if the volume is unknown.
//
// Upstream: external-snapshotter pkg/common-controller buildVolumeSnapshotSpecForGroupSnapshot (8.7.0).
func (m *member) newSnapshot() *snapshotapi.VolumeSnapshot {
	claim := ""
	if m.volume != nil && m.volume.Spec.ClaimRef != nil {
		claim = m.volume.Spec.ClaimRef.Name
	}
	return &snapshotapi.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.content.Spec.VolumeGroupSnapshotRef.Namespace, Name: memberSnapshotName(m.group, m.info.VolumeHandle),
			OwnerReferences: []metav1.OwnerReference{m.group.OwnerReference()},
			Finalizers:      []string{snapshotapi.InGroupFinalizer},
		},
		Spec: snapshotapi.SnapshotSpec{Source: snapshotapi.SnapshotSource{PersistentVolumeClaimName: &claim}},
	}
}

// createMember creates the objects of a member and binds them to one another. The content gets what the
// driver has reported.
//
// Differs: upstream creates the content first, and binds it later. A group that is deleted in between
// leaves it.
//
// Upstream: external-snapshotter pkg/common-controller createIndividualSnapshotForGroupSnapshot (8.7.0).
func (g *groups) createMember(ctx context.Context, m *member) error {
	snapshot, err := g.createMemberSnapshot(ctx, m.newSnapshot())
	if err != nil {
		return fmt.Errorf("error creating or fetching volumesnapshot %w", err)
	}
	content, err := g.createMemberContent(ctx, m.newContent(snapshot))
	if err != nil {
		return fmt.Errorf("creating volumesnapshotcontent %w", err)
	}
	if content.Spec.VolumeSnapshotRef.UID != snapshot.UID {
		op := patchOp{"replace", "/spec/volumeSnapshotRef/uid", string(snapshot.UID)}
		if content, err = g.patchContent(ctx, content, op); err != nil {
			return fmt.Errorf("binding volumesnapshotcontent to volumesnapshot %w", err)
		}
	}
	if !snapshot.IsBound() {
		patched, err := g.snapshotClient.Patch(ctx, snapshot.Namespace, snapshot.Name, types.MergePatchType,
			statusPatch(snapshot.UID, map[string]any{"boundVolumeSnapshotContentName": content.Name}), "status")
		if _, err = g.wroteSnapshot(snapshot, patched, err); err != nil {
			return fmt.Errorf("binding volumesnapshot to volumesnapshotcontent %w", err)
		}
	}
	if content.Status != nil && content.Status.SnapshotHandle != nil {
		return nil
	}
	patched, err := g.contentClient.Patch(ctx, "", content.Name, types.MergePatchType, statusPatch(content.UID, map[string]any{
		"snapshotHandle": m.info.SnapshotHandle, "volumeGroupSnapshotHandle": m.content.Status.VolumeGroupSnapshotHandle,
		"creationTime": m.info.CreationTime, "restoreSize": m.info.RestoreSize, "readyToUse": m.info.ReadyToUse,
	}), "status")
	if _, err = g.wroteContent(content, patched, err); err != nil {
		return fmt.Errorf("setting snapshotHandle in volumesnapshotcontent %w", err)
	}
	return nil
}

// statusPatch returns a merge patch of the status of the object with this UID.
func statusPatch(uid types.UID, status map[string]any) []byte {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		panic(fmt.Sprintf("snapshot: encode status: %v", err))
	}
	return data
}

// createMemberContent creates the content of a member, or returns the existing one.
//
// Upstream: external-snapshotter pkg/common-controller createOrGetVolumeSnapshotContent (8.7.0).
func (g *groups) createMemberContent(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent,
) (*snapshotapi.VolumeSnapshotContent, error) {
	if cached := g.contents.Get("", content.Name); cached != nil && !g.ownContent.isNewer(cached) {
		return cached, nil
	}
	created, err := g.contentClient.Create(ctx, content)
	if apierrors.IsAlreadyExists(err) {
		return g.contentClient.Get(ctx, "", content.Name)
	}
	if err == nil {
		g.ownContent.note(created)
	}
	return created, err
}

// createMemberSnapshot creates the snapshot of a member, or returns the existing one.
//
// Upstream: external-snapshotter pkg/common-controller createOrGetVolumeSnapshot (8.7.0).
func (g *groups) createMemberSnapshot(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshot, error) {
	if cached := g.snapshots.Get(snapshot.Namespace, snapshot.Name); cached != nil && !g.ownSnapshot.isNewer(cached) {
		return cached, nil
	}
	created, err := g.snapshotClient.Create(ctx, snapshot)
	if apierrors.IsAlreadyExists(err) {
		return g.snapshotClient.Get(ctx, snapshot.Namespace, snapshot.Name)
	}
	if err == nil {
		g.ownSnapshot.note(created)
	}
	return created, err
}
