package pvcontroller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/plugins"
)

// reclaimDecision is what is to be done about a released volume. The zero value is nothing: it is kept, or somebody else
// takes care of it.
type reclaimDecision struct {
	operation string // opDelete or opRecycle, with plugin; "": none
	plugin    plugins.Capabilities
	fail      bool    // phase Failed, and with the change of phase, tell the message
	message   message // without fail: say it
}

// decideReclaim says what a released volume's policy comes to. pods are those that use a claim of the name in its claimRef
// while there is none.
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

// decideDelete finds the plugin that deletes a volume: the one that made it, or the one whose kind it is. Where a provisioner
// outside could have made it, the volume is that one's.
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

// reclaim does what a released volume's policy says, or starts it.
//
// Differs: upstream looks for the plugin in the operation, after it has read the volume anew. That there is none cannot
// be undone by a volume that is behind: the write of the phase would conflict.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	plan := decideReclaim(volume, c.podsWithoutClaim(volume), c.plugins)
	switch {
	case plan.operation != "":
		c.startReclaiming(volume, plan)
	case plan.fail:
		return c.setFailed(ctx, volume, plan.message, nil)
	case plan.message != (message{}):
		c.recordOnce(volume.UID, volume, plan.message)
	}
	return nil
}

// startReclaiming deletes or recycles a volume beside the syncs.
func (c *Controller) startReclaiming(volume *corev1.PersistentVolume, plan reclaimDecision) {
	if c.awaitsFinalizers(volume) {
		return
	}
	c.operations.start(plan.operation, operationName(plan.operation, volume), queueItem{c.volumeQueue, volume.Name}, volume, func(ctx context.Context) error {
		switch plan.operation {
		case opDelete:
			return c.delete(ctx, volume, plan.plugin)
		case opRecycle:
			return c.recycle(ctx, volume, plan.plugin)
		default:
			panic(fmt.Sprintf("pvcontroller: operation %q", plan.operation))
		}
	})
}

// isBeingReclaimed tells whether a volume is being deleted or recycled just now, and if so, has an item looked at when that is over.
// Meanwhile nobody may get it, also when somebody took its claimRef away: what is in it is about to go.
//
// Differs: upstream lets it be bound, and deletes what its new claim has.
func (c *Controller) isBeingReclaimed(volume *corev1.PersistentVolume, of queueItem) bool {
	return c.operations.await(opDelete, volume, of) || c.operations.await(opRecycle, volume, of)
}

// podsWithoutClaim names the pods, sorted, that use the claim of a volume while no claim of that name is there: if one is,
// it is another claim, and they use its volume.
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
