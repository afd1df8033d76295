package attachdetach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// attachmentChanged processes a VolumeAttachment in the cache. Its volume may be attached even if
// this controller did not know, for example after a start from a stale list.
func (c *Controller) attachmentChanged(attachment *storagev1.VolumeAttachment) {
	if c.kubeletAttaches(attachment.Spec.NodeName) {
		return
	}
	volume, spec := c.volumeOfAttachment(attachment)
	if spec == nil {
		c.attachmentDeleted(attachment)
		return
	}
	node := types.NodeName(attachment.Spec.NodeName)
	switch a := c.actual.get(volume, node); {
	case a != nil:
		c.recheckAndEnqueue(a)
	default:
		c.actual.addUncertain(volume, node, spec)
		if !c.executor.Pending(operationKey(volume, spec, node)) {
			c.volumes.Add(volume)
		}
	}
}

// attachmentDeleted processes a VolumeAttachment that was deleted, or whose volume cannot be
// resolved.
func (c *Controller) attachmentDeleted(attachment *storagev1.VolumeAttachment) {
	for _, a := range c.actual.OnNode(types.NodeName(attachment.Spec.NodeName)) {
		c.recheckAndEnqueue(a)
	}
}

// recheckAndEnqueue queues a volume whose attachment became uncertain.
func (c *Controller) recheckAndEnqueue(a *attachedVolume) {
	if c.recheck(a) {
		c.volumes.Add(a.Volume)
	}
}

// recheck makes an attachment uncertain if the plugin's cache shows that it is missing: another
// client removed it, or the node's status was stale. It is then no longer reported to the node, and
// is attached or detached as the pods require. recheck returns whether that is a change. While an
// operation runs it changes nothing, since the operation has the same effect; the volume is synced
// again afterwards.
//
// Differs: upstream asks the plugin each minute about all volumes, and records as detached whatever
// is not attached at that moment. Here a plugin is asked only if VolumeAttachments do not show the
// state of its volumes; see verifyAll.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler syncStates, and of
// pkg/volume/util/operationexecutor GenerateVolumesAreAttachedFunc (v1.36).
func (c *Controller) recheck(a *attachedVolume) bool {
	if a.State != stateAttached || c.isBusy(a) {
		return false
	}
	verifier, name := c.verifier(a.Volume)
	if verifier == nil || verifier.LastSeen(name, a.Node) == plugins.Attached {
		return false
	}
	c.actual.markUncertain(a.Volume, a.Node)
	c.status.changed(a.Node)
	return true
}

// verifyPeriod is the default period of verifyAll.
//
// Upstream: cmd/kube-controller-manager --attach-detach-reconcile-sync-period (v1.36).
const verifyPeriod = time.Minute

// scheduleVerify sets the verify timer if the volume's plugin needs it.
func (c *Controller) scheduleVerify(volume corev1.UniqueVolumeName) {
	if c.cfg.VerifyPeriod < 0 || c.verifying {
		return
	}
	if verifier, _ := c.verifier(volume); verifier != nil && !verifier.Watched() {
		c.verifying = true
		c.verify.Reset(cmp.Or(c.cfg.VerifyPeriod, verifyPeriod))
	}
}

// verifyAll asks the plugins about all attachments that VolumeAttachments do not show. Each
// question is an operation, so that no other operation on the attachment runs meanwhile.
//
// Differs: upstream asks while other operations run, and may record as detached a volume that was
// attached a moment ago.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler sync (v1.36).
func (c *Controller) verifyAll() {
	c.verifying = false
	for _, a := range c.actual.All() {
		verifier, name := c.verifier(a.Volume)
		if a.State != stateAttached || verifier == nil || verifier.Watched() {
			continue
		}
		c.scheduleVerify(a.Volume)
		key := operationKey(a.Volume, a.Spec, a.Node)
		if c.executor.Check(key, opVerifyAttached) != nil {
			continue
		}
		state := plugins.Attached
		c.start(executor.Operation{
			Key:  key,
			Name: opVerifyAttached,
			Run: func(ctx context.Context) (err error) {
				state, err = verifier.Verify(ctx, a.Spec, name, a.Node)
				return err
			},
			Done: func(_ executor.Outcome, err error) {
				if err == nil && state != plugins.Attached {
					c.actual.markUncertain(a.Volume, a.Node)
					c.status.changed(a.Node)
				}
			},
		})
	}
}

// isBusy reports whether an operation runs that overlaps operations on the attachment.
func (c *Controller) isBusy(a *attachedVolume) bool {
	return c.executor.Pending(operationKey(a.Volume, a.Spec, a.Node))
}

// confirm asks the plugin whether an uncertain attachment has the state that the operation should
// have produced. The plugin's cache may show an older state.
//
// Differs: upstream does not ask. With a stale cache it records as attached what is being detached,
// and as detached what it has not seen yet (I16b, I20).
func (c *Controller) confirm(
	ctx context.Context, volume corev1.UniqueVolumeName, spec *plugins.Spec, node types.NodeName, want plugins.AttachState,
) error {
	verifier, name := c.verifier(volume)
	if verifier == nil {
		return nil
	}
	got, err := verifier.Verify(ctx, spec, name, node)
	if errors.Is(err, plugins.ErrUnsupported) {
		return nil
	}
	if err == nil && got != want {
		err = fmt.Errorf("attachment to node %q is %s, want %s", node, got, want)
	}
	return err
}

// verifier returns the verifier of a volume's plugin and the plugin's name of the volume. The
// verifier is nil if there is none.
func (c *Controller) verifier(volume corev1.UniqueVolumeName) (plugins.Verifier, string) {
	pluginName, name, err := plugins.SplitUniqueName(volume)
	if err != nil {
		return nil, ""
	}
	plugin, err := c.cfg.Plugins.FindByName(pluginName)
	if err != nil {
		return nil, ""
	}
	return plugin.Verifier, name
}
