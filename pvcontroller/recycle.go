package pvcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// recycle has a plugin empty a released volume, and gives it back to all. While pods use the claim that it had, it waits.
//
// Differs: upstream decides by its cache of claims whether the volume is still released, and retries a plugin that failed at
// each resync, without a back-off.
//
// Upstream: pkg/controller/volume/persistentvolume recycleVolumeOperation (v1.36).
func (c *Controller) recycle(ctx context.Context, volume *corev1.PersistentVolume, plugin plugins.Capabilities) error {
	live, err := c.stillReleased(ctx, volume)
	if err != nil || live == nil {
		return err
	}
	if pods := c.podsWithoutClaim(live); len(pods) > 0 {
		c.say(volume.UID, live, msgUsedByPods(pods))
		return nil
	}
	err = plugin.Recycler.Recycle(ctx, live.Name, &plugins.Spec{PersistentVolume: live}, func(severity, text string) {
		c.tell(live, message{severity, reasonRecyclerPod, "Recycler pod: " + text})
	})
	if err != nil {
		return c.failed(ctx, live, warning(reasonFailedRecycle, fmt.Sprintf("Recycle failed: %s", err)), err)
	}
	c.silent(volume.UID)
	c.tell(live, msgRecycled)
	return c.unbind(ctx, live)
}
