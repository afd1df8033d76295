package pvcontroller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// reclaimPlan is what is to be done about a released volume. The zero value is nothing: it is kept, or somebody else
// takes care of it.
type reclaimPlan struct {
	fail    bool    // phase Failed, and with the change of phase, tell the message
	message message // without fail: say it
}

// decideReclaim says what a released volume's policy comes to. pods are those that use a claim of the name in its claimRef
// while there is none.
//
// Deleting is the external provisioner's business wherever there could be one. What upstream would give to a plugin of
// its own ends as upstream ends without that plugin.
//
// Upstream: pkg/controller/volume/persistentvolume reclaimVolume, findDeletablePlugin, recycleVolumeOperation (v1.36).
func decideReclaim(volume *corev1.PersistentVolume, pods []string) reclaimPlan {
	if volume.Annotations[storagehelpers.AnnMigratedTo] != "" {
		return reclaimPlan{}
	}
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return reclaimPlan{}
	case corev1.PersistentVolumeReclaimDelete:
		return decideDelete(volume)
	case corev1.PersistentVolumeReclaimRecycle:
		if len(pods) > 0 {
			return reclaimPlan{message: msgUsedByPods(pods)}
		}
		return reclaimPlan{fail: true, message: msgNoRecycler}
	default:
		return reclaimPlan{fail: true, message: msgUnknownPolicy}
	}
}

func decideDelete(volume *corev1.PersistentVolume) reclaimPlan {
	provisioner := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]
	switch {
	case isInTree(provisioner):
		// Upstream gives the bare error of the lookup here, and the wrapped one below.
		return reclaimPlan{fail: true, message: warning(reasonFailedDelete, "no volume plugin matched name: "+provisioner)}
	case provisioner != "" || volume.Spec.CSI != nil:
		return reclaimPlan{}
	default:
		return reclaimPlan{fail: true, message: msgNoDeleter(volume.Name, "no volume plugin matched")}
	}
}

// reclaim does what a released volume's policy says.
//
// Differs: upstream recycles and deletes in operations beside the volume's sync, which look at the live volume first.
// None of what is left of them here can be undone by a stale volume: the write of the phase would conflict.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	plan := decideReclaim(volume, c.podsWithoutClaim(volume))
	switch {
	case plan.fail && volume.Status.Phase != corev1.VolumeFailed:
		written, err := c.writePhase(ctx, volume, corev1.VolumeFailed, plan.message.text)
		if err != nil {
			return err
		}
		c.tell(written, plan.message)
	case !plan.fail && plan.message != (message{}):
		c.say(volume.UID, volume, plan.message)
	}
	return nil
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
