package pvcontroller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// recycle calls a plugin to empty a released volume, then makes the volume available. It waits
// while pods use the former claim.
//
// Differs: upstream decides by its claim cache whether the volume is still released. It retries a
// failed plugin at each resync, without back-off, and repeats the plugin's messages each time; here
// each is recorded once until the volume is recycled. If two upstream controllers recycle one
// volume, the slower one removes data of the next claim. Here a volume is held before anything is
// removed, and only the holder makes it available.
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

// holdForRecycling writes the name of the recycler into the volume's status, if the volume has not
// changed since it was found to be released. An earlier recycler that has not made the volume
// available yet can no longer do so, since the volume has changed.
func (c *Controller) holdForRecycling(
	ctx context.Context, volume *corev1.PersistentVolume, by string,
) (*corev1.PersistentVolume, error) {
	return c.writeVolumeStatus(ctx, volume, volume.Status.Phase, recyclingBy+by)
}

// recyclingBy is the start of the status message of a volume that is held for recycling.
const recyclingBy = "Recycling by "

// setRecycleFailed is setFailed for a volume that may be held: it also replaces the held message
// with the error.
func (c *Controller) setRecycleFailed(ctx context.Context, volume *corev1.PersistentVolume, err error) error {
	why := warning(reasonFailedRecycle, fmt.Sprintf("Recycle failed: %s", err))
	if volume.Status.Phase == corev1.VolumeFailed && strings.HasPrefix(volume.Status.Message, recyclingBy) {
		if _, err := c.writeVolumeStatus(ctx, volume, corev1.VolumeFailed, why.text); err != nil {
			return err
		}
	}
	return c.setFailed(ctx, volume, why, err)
}

// recordRecyclerMessage records a recycler's message on a volume, unless it was recorded before.
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
