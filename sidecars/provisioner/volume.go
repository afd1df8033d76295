package provisioner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// A volumeAction is the next step for a PersistentVolume.
type volumeAction int

const (
	leave volumeAction = iota
	addFinalizer
	dropFinalizer
	remove // delete the volume, then its object
)

// String returns the action in words.
func (s volumeAction) String() string {
	return [...]string{"leave", "add finalizer", "drop finalizer", "remove"}[s]
}

// decideVolume decides the next step for a PersistentVolume of the driver.
//
// Upstream: sig-storage-lib-external-provisioner handleProtectionFinalizer, shouldDelete (v13.0.0).
func decideVolume(volume *corev1.PersistentVolume) volumeAction {
	hasFinalizer := slices.Contains(volume.Finalizers, provisionedFinalizer)
	deleting := volume.DeletionTimestamp != nil
	isDelete := volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	switch {
	case isDelete && volume.Status.Phase == corev1.VolumeBound && !deleting && !hasFinalizer:
		return addFinalizer
	case !isDelete && hasFinalizer:
		return dropFinalizer
	case isDelete && volume.Status.Phase == corev1.VolumeReleased && (hasFinalizer || !deleting):
		return remove
	default:
		return leave
	}
}

// owns reports whether a PersistentVolume belongs to the driver: it was provisioned by the driver,
// or was not provisioned and names the driver.
//
// Upstream: sig-storage-lib-external-provisioner isProvisionerForVolume (v13.0.0).
func owns(driver string, volume *corev1.PersistentVolume) bool {
	if by, ok := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]; ok {
		return by == driver
	}
	return volume.Spec.CSI != nil && volume.Spec.CSI.Driver == driver
}

// syncVolume maintains a PersistentVolume's finalizer, and deletes the volume when it is released.
//
// Upstream: sig-storage-lib-external-provisioner syncVolume (v13.0.0).
func (c *Controller) syncVolume(ctx context.Context, name string) error {
	volume, err := c.volumes.Get(name)
	if err != nil || !owns(c.cfg.DriverName, volume) {
		return nil //nolint:nilerr // deleted
	}
	switch decideVolume(volume) {
	case addFinalizer:
		return c.patchFinalizers(ctx, volume, true)
	case dropFinalizer:
		return c.patchFinalizers(ctx, volume, false)
	case remove:
		if c.node != nil && !c.node.reaches(volume) { // it is another node's
			return nil
		}
		return c.remove(ctx, volume)
	default:
		return nil
	}
}

// remove deletes a volume and then its PersistentVolume, by UID. It is safe to repeat.
//
// Upstream: sig-storage-lib-external-provisioner deleteVolumeOperation (v13.0.0),
// external-provisioner pkg/controller Delete, canDeleteVolume (6.3.0).
//
// Differs: the object is deleted by its UID. An attachment is waited for; upstream retries with
// back-off.
func (c *Controller) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.CSI == nil {
		c.reportDeleteFailed(volume, "invalid CSI PV")
		return nil
	}
	if node, ok := c.attachedTo(volume.Name); ok {
		c.reportDeleteFailed(volume, fmt.Sprintf("persistentvolume %s is still attached to node %s", volume.Name, node))
		return nil
	}
	secrets, err := c.deletionCredentials(ctx, volume)
	if err == nil {
		_, err = c.driver.DeleteVolume(ctx, &csispec.DeleteVolumeRequest{VolumeId: volume.Spec.CSI.VolumeHandle, Secrets: secrets})
	}
	if err != nil {
		c.reportDeleteFailed(volume, err.Error())
		return err
	}
	if volume.Spec.NodeAffinity != nil {
		c.capacities.refresh(volume.Spec.NodeAffinity, "")
	}
	err = c.cfg.Client.CoreV1().PersistentVolumes().
		Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PersistentVolume %s: %w", volume.Name, err)
	}
	if err != nil || !slices.Contains(volume.Finalizers, provisionedFinalizer) {
		return nil
	}
	return c.patchFinalizers(ctx, volume, false)
}

// attachedTo returns the first node by name to which the volume is, or may be, attached.
func (c *Controller) attachedTo(volume string) (node string, ok bool) {
	attachments, err := c.attachments.List(labels.Everything())
	if err != nil {
		panic("provisioner: list attachments: " + err.Error())
	}
	for _, a := range attachments {
		name := a.Spec.Source.PersistentVolumeName
		if name != nil && *name == volume && (!ok || a.Spec.NodeName < node) {
			node, ok = a.Spec.NodeName, true
		}
	}
	return node, ok
}

// A finalizerPatch is a strategic merge patch of finalizers.
type finalizerPatch struct {
	Metadata struct {
		Delete     []string  `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
		Order      []string  `json:"$setElementOrder/finalizers"`
		Finalizers []string  `json:"finalizers,omitempty"`
		UID        types.UID `json:"uid"`
	} `json:"metadata"`
}

// patchFinalizers adds or removes the provisioner's finalizer on a PersistentVolume. A missing
// object is not an error.
//
// Upstream: sig-storage-lib-external-provisioner patchPersistentVolumeWithFinalizers (v13.0.0).
//
// Differs: the patch contains the UID, so that it cannot reach another object of the same name.
func (c *Controller) patchFinalizers(ctx context.Context, volume *corev1.PersistentVolume, add bool) error {
	rest := slices.DeleteFunc(slices.Clone(volume.Finalizers), func(f string) bool { return f == provisionedFinalizer })
	var p finalizerPatch
	p.Metadata.UID = volume.UID
	if add {
		p.Metadata.Finalizers = []string{provisionedFinalizer}
		p.Metadata.Order = append(rest, provisionedFinalizer)
	} else {
		p.Metadata.Delete = []string{provisionedFinalizer}
		p.Metadata.Order = append([]string{}, rest...)
	}
	patch, err := json.Marshal(&p)
	if err != nil {
		panic("provisioner: finalizer patch: " + err.Error())
	}
	_, err = c.cfg.Client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch finalizers of PersistentVolume %s: %w", volume.Name, err)
	}
	return nil
}
