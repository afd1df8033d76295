package pvcontroller

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// Before anything else is done about a claim or a volume, its annotations and finalizers are made to say who looks after
// it: the controller with its plugins, or a CSI driver that the plugin was migrated to.

// syncClaimMetadata puts a claim's migrated-to annotation right. The result is the claim as it is then; an error leaves it for the
// next time.
//
// Upstream: pkg/controller/volume/persistentvolume updateClaimMigrationAnnotations (v1.36).
func (c *Controller) syncClaimMetadata(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	annotations, ok := c.migratedAnnotations(claim.Annotations, claimProvisioner(claim.Annotations))
	if !ok {
		return claim, nil
	}
	changed := *claim // shares the rest with the cached one
	changed.Annotations = annotations
	return c.writeClaim(ctx, &changed)
}

// syncVolumeMetadata puts a volume's migrated-to annotation and its finalizers right, in one write.
//
// Differs: upstream may put the finalizer back onto a volume whose data is deleted, just before it deletes the volume, which
// then stays until the data is deleted once more.
//
// Upstream: pkg/controller/volume/persistentvolume updateVolumeMigrationAnnotationsAndFinalizers (v1.36).
func (c *Controller) syncVolumeMetadata(ctx context.Context, volume *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	annotations, remarked := c.migratedAnnotations(volume.Annotations, volume.Annotations[storagehelpers.AnnDynamicallyProvisioned])
	finalizers := volume.Finalizers
	if !c.dataDeleted[volume.UID] {
		finalizers = wantedFinalizers(volume, c.migration)
	}
	if !remarked && slices.Equal(finalizers, volume.Finalizers) {
		return volume, nil
	}
	changed := *volume // shares the rest with the cached one
	changed.Annotations, changed.Finalizers = annotations, finalizers
	return c.writeVolume(ctx, &changed)
}

// claimProvisioner is the provisioner that a claim's annotations name; "": none.
func claimProvisioner(annotations map[string]string) string {
	if name, ok := annotations[storagehelpers.AnnStorageProvisioner]; ok {
		return name
	}
	return annotations[storagehelpers.AnnBetaStorageProvisioner]
}

// migratedAnnotations returns annotations as they should be with that provisioner, and whether they differ from what they are: the
// driver that the provisioner's plugin was migrated to, or nothing where it was not. No provisioner: they stay.
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

// wantedFinalizers are the finalizers a volume should have. One that a plugin of the controller made is kept from going before
// the plugin has deleted it, as long as it is to be deleted; one that was migrated is the driver's provisioner's to keep, and
// one that was migrated back no longer is. Volumes that nobody made for a claim stay as they are.
//
// Differs: upstream puts the finalizer onto a volume that is on its way out, too, which the API server refuses; it then tries
// again until somebody takes the last finalizer off.
//
// Upstream: pkg/controller/volume/persistentvolume modifyDeletionFinalizers (v1.36).
func wantedFinalizers(volume *corev1.PersistentVolume, migration map[string]string) []string {
	const own, external = storagehelpers.PVDeletionInTreeProtectionFinalizer, storagehelpers.PVDeletionProtectionFinalizer
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

// without returns finalizers without one of them, not changing what it is given.
func without(finalizers []string, one string) []string {
	if !slices.Contains(finalizers, one) {
		return finalizers
	}
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == one })
}
