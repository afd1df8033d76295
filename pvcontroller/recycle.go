package pvcontroller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// recycle has a plugin empty a released volume, and gives it back to all. While pods use the claim that it had, it waits.
//
// Differs: upstream decides by its cache of claims whether the volume is still released, and retries a plugin that failed at
// each resync, without a back-off; what the plugin tells on the way it tells again each time, and here that is told once until
// the volume is recycled. Of two controllers that recycle one volume, the slower one of upstream's removes what is
// its next claim's already; here a volume is held before anything is removed, and given back by the one who holds it.
//
// Upstream: pkg/controller/volume/persistentvolume recycleVolumeOperation (v1.36).
func (c *Controller) recycle(ctx context.Context, volume *corev1.PersistentVolume, plugin plugins.Capabilities) error {
	live, err := c.stillReleased(ctx, volume)
	if err != nil || live == nil {
		return err
	}
	if pods := c.podsWithoutClaim(live); len(pods) > 0 {
		c.recordOnce(volume.UID, live, msgUsedByPods(pods))
		return nil
	}
	err = plugin.Recycler.Recycle(ctx, plugins.RecycleOptions{
		Volume: live.Name, Spec: &plugins.Spec{PersistentVolume: live},
		RecordEvent: func(severity, text string) {
			c.recordRecyclerMessage(live, message{severity, reasonRecyclerPod, "Recycler pod: " + text})
		},
		Acquire: func(by string) error {
			held, err := c.holdForRecycling(ctx, live, by)
			if err == nil {
				live = held
			}
			return err
		},
	})
	if err != nil {
		return c.setRecycleFailed(ctx, live, err)
	}
	c.clearSent(volume.UID)
	delete(c.recyclerMessages, volume.UID)
	c.record(live, msgRecycled)
	return c.unbind(ctx, live)
}

// holdForRecycling writes into a volume's status who empties it, if the volume is as it was when it was found to be
// released. Who emptied it before, and has not given it back yet, can no longer do so, since the volume is not as that one
// knows it.
func (c *Controller) holdForRecycling(ctx context.Context, volume *corev1.PersistentVolume, by string) (*corev1.PersistentVolume, error) {
	return c.writeVolumeStatus(ctx, volume, volume.Status.Phase, recyclingBy+by)
}

// recyclingBy begins the message of a volume that is held for recycling.
const recyclingBy = "Recycling by "

// setRecycleFailed is failed for a volume that may be held: its message says again what it failed of.
func (c *Controller) setRecycleFailed(ctx context.Context, volume *corev1.PersistentVolume, err error) error {
	why := warning(reasonFailedRecycle, fmt.Sprintf("Recycle failed: %s", err))
	if volume.Status.Phase == corev1.VolumeFailed && strings.HasPrefix(volume.Status.Message, recyclingBy) {
		if _, err := c.writeVolumeStatus(ctx, volume, corev1.VolumeFailed, why.text); err != nil {
			return err
		}
	}
	return c.setFailed(ctx, volume, why, err)
}

// recordRecyclerMessage tells what a recycler says of a volume, unless it said so before.
func (c *Controller) recordRecyclerMessage(volume *corev1.PersistentVolume, m message) {
	told := c.recyclerMessages[volume.UID]
	if told == nil {
		told = map[message]bool{}
		c.recyclerMessages[volume.UID] = told
	}
	if !told[m] {
		told[m] = true
		c.record(volume, m)
	}
}
