package pvcontroller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/plugins"
)

// A reclaimDecision is the next step for a released volume. The zero value does nothing: the volume
// is retained, or another program reclaims it.
type reclaimDecision struct {
	operation string // opDelete or opRecycle, with plugin; "": none
	plugin    plugins.Capabilities
	fail      bool    // phase Failed; record message when the phase changes
	message   message // without fail: record it
}

// decideReclaim decides by a released volume's policy. pods are the pods that use the claim named
// in its claimRef while that claim does not exist.
//
// Upstream: pkg/controller/volume/persistentvolume reclaimVolume, recycleVolumeOperation (v1.36).
func decideReclaim(volume *corev1.PersistentVolume, pods []string, manager *plugins.Manager) reclaimDecision {
	if volume.Annotations[storagehelpers.AnnMigratedTo] != "" {
		return reclaimDecision{}
	}
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return reclaimDecision{}
	case corev1.PersistentVolumeReclaimDelete:
		return decideDelete(volume, manager)
	case corev1.PersistentVolumeReclaimRecycle:
		if len(pods) > 0 {
			return reclaimDecision{message: msgUsedByPods(pods)}
		}
		plugin, err := manager.FindRecyclableBySpec(&plugins.Spec{PersistentVolume: volume})
		if err != nil {
			return reclaimDecision{fail: true, message: msgNoRecycler}
		}
		return reclaimDecision{operation: opRecycle, plugin: plugin}
	default:
		return reclaimDecision{fail: true, message: msgUnknownPolicy}
	}
}

// decideDelete finds the plugin that deletes a volume: the one that provisioned it, or the one that
// supports its kind. A volume that an external provisioner may have provisioned belongs to that
// provisioner.
//
// Upstream: pkg/controller/volume/persistentvolume findDeletablePlugin (v1.36).
func decideDelete(volume *corev1.PersistentVolume, manager *plugins.Manager) reclaimDecision {
	if maker := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]; maker != "" {
		plugin, err := manager.FindDeletable(maker)
		switch {
		case err == nil:
			return reclaimDecision{operation: opDelete, plugin: plugin}
		case isInTree(maker):
			return reclaimDecision{fail: true, message: warning(reasonFailedDelete, err.Error())}
		default:
			return reclaimDecision{}
		}
	}
	if volume.Spec.CSI != nil {
		return reclaimDecision{}
	}
	plugin, err := manager.FindDeletableBySpec(&plugins.Spec{PersistentVolume: volume})
	if err != nil {
		return reclaimDecision{fail: true, message: msgNoDeleter(volume.Name, err.Error())}
	}
	return reclaimDecision{operation: opDelete, plugin: plugin}
}

// reclaim applies a released volume's policy, or starts the operation that does.
//
// Differs: upstream looks for the plugin in the operation, after it has read the volume again. Here
// a stale volume without plugin cannot become Failed wrongly: the write of the phase would
// conflict.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	decision := decideReclaim(volume, c.podsWithoutClaim(volume), c.plugins)
	switch {
	case decision.operation != "":
		c.startReclaiming(volume, decision)
	case decision.fail:
		return c.setFailed(ctx, volume, decision.message, nil)
	case decision.message != (message{}):
		c.recordOnce(volume.UID, volume, decision.message)
	}
	return nil
}

// startReclaiming starts the operation that deletes or recycles a volume.
func (c *Controller) startReclaiming(volume *corev1.PersistentVolume, decision reclaimDecision) {
	if c.awaitsFinalizers(volume) {
		return
	}
	item, name := queueItem{c.volumeQueue, volume.Name}, operationName(decision.operation, volume)
	c.operations.start(decision.operation, name, item, volume, func(ctx context.Context) error {
		switch decision.operation {
		case opDelete:
			return c.delete(ctx, volume, decision.plugin)
		case opRecycle:
			return c.recycle(ctx, volume, decision.plugin)
		default:
			panic(fmt.Sprintf("pvcontroller: operation %q", decision.operation))
		}
	})
}

// isBeingReclaimed reports whether a volume is being deleted or recycled now. If so, item is queued
// when that ends. Until then the volume must not be bound, even if its claimRef was removed: its
// data is about to be deleted.
//
// Differs: upstream allows the binding, and deletes the new claim's data.
func (c *Controller) isBeingReclaimed(volume *corev1.PersistentVolume, item queueItem) bool {
	return c.operations.await(opDelete, volume, item) || c.operations.await(opRecycle, volume, item)
}

// podsWithoutClaim returns the names of the pods that use a volume's missing claim, sorted. If a
// claim of that name exists, it is another claim, and the pods use its volume.
//
// Upstream: pkg/controller/volume/persistentvolume isVolumeUsed (v1.36).
func (c *Controller) podsWithoutClaim(volume *corev1.PersistentVolume) []string {
	key := keyOfRef(volume.Spec.ClaimRef)
	if c.claims.get(key) != nil {
		return nil
	}
	var names []string
	for _, pod := range c.podsOf(key) {
		names = append(names, keyOf(pod))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
