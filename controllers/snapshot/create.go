package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// createContent creates the content of a snapshot of a claim. The driver's csi-snapshotter then takes
// the snapshot.
//
// Upstream: external-snapshotter pkg/common-controller createSnapshotContent (8.7.0).
func (c *controller) createContent(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshotContent, error) {
	if err := c.holdClaim(ctx, snapshot); err != nil {
		return nil, err
	}
	content, err := c.newContent(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	key := keyOf(snapshot).String()
	created, err := c.contentClient.Create(ctx, content)
	switch {
	case apierrors.IsAlreadyExists(err): // an earlier answer was lost, or the cache is behind
		if created, err = c.readContent(ctx, content.Name); err == nil && created == nil {
			err = fmt.Errorf("volume snapshot content %q is gone again", content.Name)
		}
		if err != nil {
			return nil, err
		}
	case err != nil:
		c.event(snapshot, corev1.EventTypeWarning, "CreateSnapshotContentFailed",
			fmt.Sprintf("Error creating volume snapshot content object for snapshot %s: %v.", key, err))
		return nil, updateError(key, err)
	}
	c.ownContent.note(created)
	c.event(snapshot, corev1.EventTypeNormal, "CreatingSnapshot",
		fmt.Sprintf("Waiting for a snapshot %s to be created by the CSI driver.", key))
	return created, nil
}

// newContent returns the content to be created for a snapshot of a claim.
//
// Upstream: external-snapshotter pkg/common-controller createSnapshotContent, getCreateSnapshotInput
// (8.7.0).
func (c *controller) newContent(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshotContent, error) {
	class, volume, secret, err := c.inputs(ctx, snapshot)
	if err != nil {
		return nil, restated(err, "failed to get input parameters to create snapshot %s: %q", snapshot.Name, err)
	}
	if volume.Spec.CSI == nil {
		return nil, unmet("cannot find CSI PersistentVolumeSource for volume %s", volume.Name)
	}
	content := &snapshotapi.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: snapshotapi.ContentName(snapshot)},
		Spec: snapshotapi.ContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{
				Kind: snapshotapi.Snapshots.Name, APIVersion: snapshotapi.Snapshots.Resource.GroupVersion().String(),
				Namespace: snapshot.Namespace, Name: snapshot.Name, UID: snapshot.UID,
				ResourceVersion: snapshot.ResourceVersion,
			},
			Source:                  snapshotapi.ContentSource{VolumeHandle: &volume.Spec.CSI.VolumeHandle},
			VolumeSnapshotClassName: &class.Name,
			DeletionPolicy:          class.DeletionPolicy,
			Driver:                  class.Driver,
			SourceVolumeMode:        volume.Spec.VolumeMode,
		},
	}
	if secret != nil {
		content.Annotations = map[string]string{
			snapshotapi.SecretName: secret.Name, snapshotapi.SecretNamespace: secret.Namespace,
		}
	}
	return content, nil
}

// inputs returns what a content is made from: the class of the snapshot, the volume of its claim, and
// the secret for the driver, nil for none.
//
// Upstream: external-snapshotter pkg/common-controller getCreateSnapshotInput (8.7.0).
func (c *controller) inputs(
	ctx context.Context, snapshot *snapshotapi.VolumeSnapshot,
) (*snapshotapi.VolumeSnapshotClass, *corev1.PersistentVolume, *corev1.SecretReference, error) {
	if snapshot.Spec.VolumeSnapshotClassName == nil {
		return nil, nil, nil, unmet("failed to take snapshot %s without a snapshot class", snapshot.Name)
	}
	class, err := c.class(*snapshot.Spec.VolumeSnapshotClassName)
	if err != nil {
		return nil, nil, nil, err
	}
	volume, err := c.sourceVolume(ctx, snapshot)
	if err != nil {
		return nil, nil, nil, err
	}
	const contentName, namespace = "volumesnapshotcontent.name", "volumesnapshot.namespace"
	secret, err := snapshotapi.SnapshotterSecret.Reference(class.Parameters,
		map[string]string{
			contentName: snapshotapi.ContentName(snapshot), namespace: snapshot.Namespace,
			"volumesnapshot.name": snapshot.Name,
		},
		map[string]string{contentName: snapshotapi.ContentName(snapshot), namespace: snapshot.Namespace})
	if err != nil {
		return nil, nil, nil, unmet("%v", err)
	}
	return class, volume, secret, nil
}
