package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// groupVolumes returns the volumes of the claims that a group selects, from the API server, by the names
// of the claims. Of the selector, only its labels count.
//
// Upstream: external-snapshotter pkg/common-controller getVolumesFromVolumeGroupSnapshot,
// getClaimsFromVolumeGroupSnapshot (8.7.0).
func (g *groups) groupVolumes(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) ([]*corev1.PersistentVolume, error) {
	selector := group.Spec.Source.Selector
	list, err := g.cfg.Client.CoreV1().PersistentVolumeClaims(group.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: labels.Set(selector.MatchLabels).String()})
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to list PVCs with label selector %s: %q", metav1.FormatLabelSelector(selector), err)
	case len(list.Items) == 0:
		return nil, unmet("label selector %s for group snapshot not applied to any PVC", metav1.FormatLabelSelector(selector))
	}
	var volumes []*corev1.PersistentVolume
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Status.Phase != corev1.ClaimBound {
			return nil, unmet("the PVC %s is not yet bound to a PV, will not attempt to take a group snapshot", claim.Name)
		}
		volume, err := g.volumeOf(ctx, claim)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, volume)
	}
	return volumes, nil
}

// createGroupContent creates the content of a group of claims. The driver's csi-snapshotter then takes
// the snapshots. It returns the content, and the group with its finalizer.
//
// Differs: the group has its finalizer before the content exists. Upstream adds it when the group is
// bound, and a group that is deleted before leaves its content.
//
// Upstream: external-snapshotter pkg/common-controller createGroupSnapshotContent (8.7.0).
func (g *groups) createGroupContent(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshotContent, *snapshotapi.VolumeGroupSnapshot, error) {
	content, err := g.newGroupContent(ctx, group)
	if err != nil {
		return nil, nil, err
	}
	if group, err = g.protectGroup(ctx, group); err != nil {
		return nil, nil, err
	}
	key := keyOf(group).String()
	created, err := g.groupContentClient.Create(ctx, content)
	switch {
	case apierrors.IsAlreadyExists(err): // an earlier answer was lost, or the cache is behind
		if created, err = g.readGroupContent(ctx, content.Name); err == nil && created == nil {
			err = fmt.Errorf("volume group snapshot content %q is gone again", content.Name)
		}
		if err != nil {
			return nil, nil, err
		}
	case err != nil:
		g.groupEvent(group, corev1.EventTypeWarning, "CreateGroupSnapshotContentFailed",
			fmt.Sprintf("Error creating volume group snapshot content object for group snapshot %s: %v.", key, err))
		return nil, nil, updateError(key, err)
	}
	g.ownGroupContent.note(created)
	g.groupEvent(group, corev1.EventTypeNormal, "CreatingGroupSnapshot",
		fmt.Sprintf("Waiting for a group snapshot %s to be created by the CSI driver.", key))
	return created, group, nil
}

// newGroupContent returns the content to be created for a group of claims.
//
// Upstream: external-snapshotter pkg/common-controller createGroupSnapshotContent,
// getCreateGroupSnapshotInput (8.7.0).
func (g *groups) newGroupContent(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	class, volumes, secret, err := g.groupInputs(ctx, group)
	if err != nil {
		return nil, restated(err, "failed to get input parameters to create group snapshot %s: %q", group.Name, err)
	}
	handles, err := g.handlesOf(group, class, volumes)
	if err != nil {
		return nil, err
	}
	content := &snapshotapi.VolumeGroupSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: snapshotapi.GroupContentName(group)},
		Spec: snapshotapi.GroupContentSpec{
			VolumeGroupSnapshotRef: corev1.ObjectReference{
				Kind: snapshotapi.GroupSnapshots.Name, APIVersion: snapshotapi.GroupSnapshots.Resource.GroupVersion().String(),
				Namespace: group.Namespace, Name: group.Name, UID: group.UID, ResourceVersion: group.ResourceVersion,
			},
			Source:                       snapshotapi.GroupContentSource{VolumeHandles: handles},
			VolumeGroupSnapshotClassName: &class.Name,
			DeletionPolicy:               class.DeletionPolicy,
			Driver:                       class.Driver,
		},
	}
	if secret != nil {
		content.Annotations = map[string]string{
			snapshotapi.GroupSecretName: secret.Name, snapshotapi.GroupSecretNamespace: secret.Namespace,
		}
	}
	return content, nil
}

// handlesOf returns the handles of the volumes of a group, which must be of the driver of its class.
func (g *groups) handlesOf(
	group *snapshotapi.VolumeGroupSnapshot, class *snapshotapi.VolumeGroupSnapshotClass, volumes []*corev1.PersistentVolume,
) ([]string, error) {
	var handles []string
	for _, volume := range volumes {
		switch csi := volume.Spec.CSI; {
		case csi == nil:
			g.groupEventOnce(group, "CreateGroupSnapshotContentFailed", "Cannot snapshot a non-CSI volume: "+volume.Name)
			return nil, unmet("cannot snapshot a non-CSI volume for group snapshot %s: %s", keyOf(group), volume.Name)
		case csi.Driver != class.Driver:
			text := fmt.Sprintf("Volume CSI driver (%s) mismatch with VolumeGroupSnapshotClass (%s) %s: %s",
				csi.Driver, class.Driver, keyOf(group), volume.Name)
			g.groupEventOnce(group, "CreateGroupSnapshotContentFailed", text)
			return nil, updateError(keyOf(group).String(), unmet("%s", text))
		default:
			handles = append(handles, csi.VolumeHandle)
		}
	}
	return handles, nil
}

// groupInputs returns what a content is made from: the class of the group, the volumes of its claims, and
// the secret for the driver, nil for none.
//
// Upstream: external-snapshotter pkg/common-controller getCreateGroupSnapshotInput (8.7.0).
func (g *groups) groupInputs(
	ctx context.Context, group *snapshotapi.VolumeGroupSnapshot,
) (*snapshotapi.VolumeGroupSnapshotClass, []*corev1.PersistentVolume, *corev1.SecretReference, error) {
	if group.Spec.VolumeGroupSnapshotClassName == nil {
		return nil, nil, nil, unmet("failed to take group snapshot %s without a group snapshot class", group.Name)
	}
	class, err := g.groupClass(*group.Spec.VolumeGroupSnapshotClassName)
	if err != nil {
		return nil, nil, nil, err
	}
	volumes, err := g.groupVolumes(ctx, group)
	if err != nil {
		return nil, nil, nil, err
	}
	forNamespace := map[string]string{
		groupContentToken: snapshotapi.GroupContentName(group), "volumegroupsnapshot.namespace": group.Namespace,
	}
	forName := map[string]string{
		groupContentToken: snapshotapi.GroupContentName(group), "volumegroupsnapshot.namespace": group.Namespace,
		"volumegroupsnapshot.name": group.Name,
	}
	secret, err := snapshotapi.GroupSnapshotterSecret.Reference(class.Parameters, forName, forNamespace)
	if err != nil {
		return nil, nil, nil, unmet("%v", err)
	}
	return class, volumes, secret, nil
}

// groupContentToken is the token of the name of a content in the templates of secrets.
const groupContentToken = "volumegroupsnapshotcontent.name"
