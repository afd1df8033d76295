package pvcontroller

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// A sync first updates the annotations and finalizers that state which program manages the object:
// the controller with its plugins, or the CSI driver to which the plugin was migrated.

// syncClaimMetadata updates a claim's migrated-to annotation. It returns the current claim. An
// error leaves the update to the next sync.
//
// Upstream: pkg/controller/volume/persistentvolume updateClaimMigrationAnnotations (v1.36).
func (c *Controller) syncClaimMetadata(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	annotations, ok := c.migratedAnnotations(claim.Annotations, claimProvisioner(claim.Annotations))
	if !ok {
		return claim, nil
	}
	changed := *claim // shares the rest with the cached one
	changed.Annotations = annotations
	return c.writeClaim(ctx, &changed)
}

// syncVolumeMetadata updates a volume's migrated-to annotation and finalizers in one write.
//
// Differs: upstream may add the finalizer again to a volume whose data is deleted, just before it
// deletes the volume. The volume then stays until the data is deleted once more.
//
// Upstream: pkg/controller/volume/persistentvolume updateVolumeMigrationAnnotationsAndFinalizers
// (v1.36).
func (c *Controller) syncVolumeMetadata(
	ctx context.Context, volume *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	provisioner := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]
	annotations, changes := c.migratedAnnotations(volume.Annotations, provisioner)
	finalizers := volume.Finalizers
	c.memory.readRest()
	c.memory.keepsFact("data is deleted", c.dataDeleted[volume.UID])
	if !c.dataDeleted[volume.UID] {
		finalizers = wantedFinalizers(volume, c.migration)
	}
	if !changes && slices.Equal(finalizers, volume.Finalizers) {
		return volume, nil
	}
	changed := *volume // shares the rest with the cached one
	changed.Annotations, changed.Finalizers = annotations, finalizers
	return c.writeVolume(ctx, &changed)
}

// claimProvisioner returns the provisioner in a claim's annotations, or "".
func claimProvisioner(annotations map[string]string) string {
	if name, ok := annotations[storagehelpers.AnnStorageProvisioner]; ok {
		return name
	}
	return annotations[storagehelpers.AnnBetaStorageProvisioner]
}

// migratedAnnotations returns the annotations for a provisioner, and whether they differ from the
// current ones. The migrated-to annotation names the driver to which the provisioner's plugin was
// migrated, and is absent if it was not. Without a provisioner the annotations stay as they are.
//
// Upstream: pkg/controller/volume/persistentvolume updateMigrationAnnotations (v1.36).
func (c *Controller) migratedAnnotations(annotations map[string]string, provisioner string) (map[string]string, bool) {
	if provisioner == "" {
		return annotations, false
	}
	driver := c.migration[provisioner]
	if annotations[storagehelpers.AnnMigratedTo] == driver {
		return annotations, false
	}
	changed := maps.Clone(annotations)
	if driver == "" {
		delete(changed, storagehelpers.AnnMigratedTo)
	} else {
		changed[storagehelpers.AnnMigratedTo] = driver
	}
	return changed, true
}

// wantedFinalizers returns the finalizers that a volume should have. A volume of the controller's
// plugins that must be deleted has the in-tree finalizer until the plugin has deleted it. A
// migrated volume belongs to the driver's provisioner. A volume that was migrated back no longer
// has the provisioner's finalizer. Volumes that were not provisioned stay as they are.
//
// Differs: upstream also adds the finalizer to a volume that is being deleted. The API server
// refuses that, and upstream retries until another client removes the last finalizer.
//
// Upstream: pkg/controller/volume/persistentvolume modifyDeletionFinalizers (v1.36).
func wantedFinalizers(volume *corev1.PersistentVolume, migration map[string]string) []string {
	const (
		own      = storagehelpers.PVDeletionInTreeProtectionFinalizer
		external = storagehelpers.PVDeletionProtectionFinalizer
	)
	provisioner := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]
	switch {
	case !metav1.HasAnnotation(volume.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned):
		return volume.Finalizers
	case migration[provisioner] != "":
		return without(volume.Finalizers, own)
	case !isInTree(provisioner):
		return volume.Finalizers
	}
	finalizers := without(volume.Finalizers, external)
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		if !slices.Contains(finalizers, own) && volume.DeletionTimestamp == nil {
			return append(slices.Clip(finalizers), own)
		}
	case corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimRecycle:
		return without(finalizers, own)
	}
	return finalizers
}

// without returns finalizers without one of them. It does not change its argument.
func without(finalizers []string, one string) []string {
	if !slices.Contains(finalizers, one) {
		return finalizers
	}
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == one })
}
