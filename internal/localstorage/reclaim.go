package localstorage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// volumeFinalizer keeps a PersistentVolume until its logical volume is removed.
const volumeFinalizer = Provisioner + "/logical-volume"

// syncVolume maintains the finalizer of a PersistentVolume, and deletes it once it is released.
//
// Upstream: sig-storage-lib-external-provisioner handleProtectionFinalizer, shouldDelete (v13.0.0).
func (m *Manager) syncVolume(ctx context.Context, name string) error {
	volume, err := m.volumes.Get(name)
	if err != nil || !isOn(volume, m.cfg.Node) || volume.Annotations[storagehelpers.AnnDynamicallyProvisioned] != Provisioner {
		return nil //nolint:nilerr // deleted
	}
	hasFinalizer := slices.Contains(volume.Finalizers, volumeFinalizer)
	deleting := volume.DeletionTimestamp != nil
	isDelete := volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	switch {
	case isDelete && volume.Status.Phase == corev1.VolumeBound && !deleting && !hasFinalizer:
		return m.patchFinalizers(ctx, volume, true)
	case !isDelete && hasFinalizer:
		return m.patchFinalizers(ctx, volume, false)
	case isDelete && volume.Status.Phase == corev1.VolumeReleased && (hasFinalizer || !deleting):
		return m.remove(ctx, volume)
	default:
		return nil
	}
}

// remove removes a logical volume with its content, writes the record, and deletes the
// PersistentVolume by its UID. It is safe to repeat.
//
// Upstream: sig-storage-lib-external-provisioner deleteVolumeOperation (v13.0.0).
func (m *Manager) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	volumes := m.cfg.Client.CoreV1().PersistentVolumes()
	current, err := volumes.Get(ctx, volume.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (current.UID != volume.UID || current.Status.Phase != corev1.VolumeReleased) {
		return nil // the cache will show it
	} else if err != nil {
		return err
	}
	class := volume.Spec.StorageClassName
	err = m.call("RemoveLogicalVolume", volume.Name, func() error { return m.cfg.Groups.Remove(ctx, class, volume.Name) })
	if err != nil {
		m.cfg.Recorder.Event(volume, corev1.EventTypeWarning, reasonFailedDelete, err.Error())
		return err
	}
	if m.class(class) == nil {
		m.addClass(class) // its group may be removed now, whatever becomes of the PersistentVolume
	}
	if err := m.refresh(ctx, class); err != nil {
		return err
	}
	err = volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PersistentVolume %s: %w", volume.Name, err)
	}
	if err == nil && slices.Contains(volume.Finalizers, volumeFinalizer) {
		return m.patchFinalizers(ctx, volume, false)
	}
	return nil
}

// patchFinalizers adds or removes the finalizer of a PersistentVolume. A missing one is not an error.
//
// Upstream: sig-storage-lib-external-provisioner patchPersistentVolumeWithFinalizers (v13.0.0).
func (m *Manager) patchFinalizers(ctx context.Context, volume *corev1.PersistentVolume, add bool) error {
	others := slices.DeleteFunc(slices.Clone(volume.Finalizers), func(f string) bool { return f == volumeFinalizer })
	metadata := map[string]any{"uid": volume.UID}
	if add {
		metadata["finalizers"] = []string{volumeFinalizer}
		metadata["$setElementOrder/finalizers"] = append(others, volumeFinalizer)
	} else {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{volumeFinalizer}
		metadata["$setElementOrder/finalizers"] = append([]string{}, others...)
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic("localstorage: finalizer patch: " + err.Error())
	}
	_, err = m.cfg.Client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch finalizers of PersistentVolume %s: %w", volume.Name, err)
	}
	return nil
}
