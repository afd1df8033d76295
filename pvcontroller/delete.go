package pvcontroller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/plugins"
)

// delete deletes the storage of a released volume, then the PersistentVolume.
//
// Differs: upstream decides by its claim cache whether the volume is still released
// (kubernetes#142332), and does not check the policy again. It deletes the PersistentVolume by
// name, even a new one with the same name. Here the API server is asked about the claim, and the
// UID is a precondition. Upstream calls the plugin again if only a later write failed.
//
// Upstream: pkg/controller/volume/persistentvolume deleteVolumeOperation (v1.36).
func (c *Controller) delete(ctx context.Context, volume *corev1.PersistentVolume, plugin plugins.Capabilities) error {
	live, err := c.stillReleased(ctx, volume)
	if err != nil || live == nil {
		return err
	}
	if err = c.erase(ctx, live, plugin); err == nil {
		err = c.dropFinalizer(ctx, live)
	}
	switch {
	case plugins.IsInUse(err):
		c.recordOnce(volume.UID, live, normal(reasonDelete, err.Error()))
		return err
	case err != nil:
		return c.setFailed(ctx, live, warning(reasonFailedDelete, err.Error()), err)
	}
	err = c.cfg.Client.CoreV1().PersistentVolumes().Delete(ctx, live.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(live.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// erase calls the plugin to delete the storage of a volume, once.
func (c *Controller) erase(ctx context.Context, volume *corev1.PersistentVolume, plugin plugins.Capabilities) error {
	if c.dataDeleted[volume.UID] {
		return nil
	}
	if err := callDeleter(ctx, plugin.Deleter, volume); err != nil {
		return err
	}
	if known := c.volumes.get(volume.Name); known != nil && known.UID == volume.UID {
		c.dataDeleted[volume.UID] = true
	}
	return nil
}

// awaitsFinalizers reports whether only other finalizers keep a deleted volume.
func (c *Controller) awaitsFinalizers(volume *corev1.PersistentVolume) bool {
	c.memory.readRest()
	return c.dataDeleted[volume.UID] && volume.DeletionTimestamp != nil &&
		!slices.Contains(volume.Finalizers, storagehelpers.PVDeletionInTreeProtectionFinalizer)
}

// callDeleter calls a plugin to delete a volume.
func callDeleter(ctx context.Context, deleter plugins.Deleter, volume *corev1.PersistentVolume) error {
	spec := &plugins.Spec{PersistentVolume: volume}
	if err := deleter.CanDelete(spec); err != nil {
		return fmt.Errorf("failed to create deleter for volume %q: %w", volume.Name, err)
	}
	return deleter.Delete(ctx, spec)
}

// dropFinalizer removes the controller's finalizer from the stored volume.
//
// Upstream: pkg/controller/volume/persistentvolume removeDeletionProtectionFinalizer (v1.36).
func (c *Controller) dropFinalizer(ctx context.Context, volume *corev1.PersistentVolume) error {
	live, err := c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != volume.UID:
		return nil
	case err != nil:
		return err
	case !slices.Contains(live.Finalizers, storagehelpers.PVDeletionInTreeProtectionFinalizer):
		return nil
	}
	changed := *live
	changed.Finalizers = without(live.Finalizers, storagehelpers.PVDeletionInTreeProtectionFinalizer)
	if _, err := c.writeVolume(ctx, &changed); err != nil {
		return fmt.Errorf("persistent volume controller can't update finalizer: %w", err)
	}
	return nil
}

// setFailed marks a volume as Failed, records the reason if the phase changes, and returns err.
func (c *Controller) setFailed(ctx context.Context, volume *corev1.PersistentVolume, why message, err error) error {
	if volume.Status.Phase == corev1.VolumeFailed {
		return err
	}
	written, writeErr := c.writePhase(ctx, volume, corev1.VolumeFailed, why.text)
	if writeErr != nil {
		return writeErr
	}
	c.record(written, why)
	return err
}

// stillReleased reads a volume from the API server and returns it if it is still released. That
// means: same UID, claim deleted or bound to another volume, same policy. Otherwise it returns nil.
// It asks for the claim again even if the sync found it missing, since the next step cannot be
// undone.
//
// Upstream: pkg/controller/volume/persistentvolume isVolumeReleased (v1.36).
func (c *Controller) stillReleased(
	ctx context.Context, volume *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	live, err := c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	ref := live.Spec.ClaimRef
	if live.UID != volume.UID || ref == nil || ref.UID == "" ||
		live.Spec.PersistentVolumeReclaimPolicy != volume.Spec.PersistentVolumeReclaimPolicy {
		return nil, nil
	}
	claim, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && claim.UID != ref.UID:
		c.memory.write(partGone, live.Name)
		c.goneClaims[live.Name] = ref.UID
		return live, nil
	case err != nil:
		return nil, err
	case claim.Spec.VolumeName == "" || claim.Spec.VolumeName == live.Name:
		return nil, nil
	default:
		return live, nil
	}
}
