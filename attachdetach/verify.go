package attachdetach

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// attachmentChanged takes in that the cache shows a VolumeAttachment: what it is of may be attached, also when this
// controller did not know, as when it started from an old list.
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

// attachmentDeleted takes in that the cache shows a VolumeAttachment no more, or that of which volume it is cannot be told.
func (c *Controller) attachmentDeleted(attachment *storagev1.VolumeAttachment) {
	for _, a := range c.actual.OnNode(types.NodeName(attachment.Spec.NodeName)) {
		c.recheckAndEnqueue(a)
	}
}

// recheckAndEnqueue has a volume looked at whose attachment became doubtful.
func (c *Controller) recheckAndEnqueue(a *attachedVolume) {
	if c.recheck(a) {
		c.volumes.Add(a.Volume)
	}
}

// recheck makes an attachment uncertain that is taken for certain, but that the plugin saw to be none: somebody took it away,
// or the node's status from which it was taken was old. It is not told to the node any more, and then attached or detached
// as the pods want. It returns whether that is a change. While an operation runs, which brings the same about, nothing is
// doubted; Sync looks again after it.
//
// Differs: upstream asks the plugin each minute, about all volumes, and takes for detached what is not attached at this
// moment. Here a plugin is asked only if VolumeAttachments do not show what becomes of its volumes; see verifyAll.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler syncStates, and of pkg/volume/util/operationexecutor
// GenerateVolumesAreAttachedFunc (v1.36).
func (c *Controller) recheck(a *attachedVolume) bool {
	if a.State != Attached || c.isBusy(a) {
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

// verifyPeriod is how often a plugin is asked whether its volumes are attached still, if VolumeAttachments do not show it.
//
// Upstream: cmd/kube-controller-manager --attach-detach-reconcile-sync-period (v1.36).
const verifyPeriod = time.Minute

// scheduleVerify has an attachment that is certain asked for when the period is over, with all others.
func (c *Controller) scheduleVerify(volume corev1.UniqueVolumeName) {
	if c.cfg.VerifyPeriod < 0 || c.verifying {
		return
	}
	if verifier, _ := c.verifier(volume); verifier != nil && !verifier.Watched() {
		c.verifying = true
		c.verify.Reset(cmp.Or(c.cfg.VerifyPeriod, verifyPeriod))
	}
}

// verifyAll asks for all attachments that are certain and that VolumeAttachments do not show, each in an operation of its own,
// so that nothing else is done to it meanwhile.
//
// Differs: upstream asks while other operations run, and may take for detached what was attached a moment ago.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler sync (v1.36).
func (c *Controller) verifyAll() {
	c.verifying = false
	for _, a := range c.actual.All() {
		verifier, name := c.verifier(a.Volume)
		if a.State != Attached || verifier == nil || verifier.Watched() {
			continue
		}
		c.scheduleVerify(a.Volume)
		key := operationKey(a.Volume, a.Spec, a.Node)
		if c.executor.Check(key, executor.VerifyAttached) != nil {
			continue
		}
		is := plugins.Attached
		c.start(executor.Operation{
			Key:  key,
			Name: executor.VerifyAttached,
			Run: func(ctx context.Context) (err error) {
				is, err = verifier.Verify(ctx, name, a.Node)
				return err
			},
			Done: func(_ executor.Outcome, err error) {
				if err == nil && is != plugins.Attached {
					c.actual.markUncertain(a.Volume, a.Node)
					c.status.changed(a.Node)
				}
			},
		})
	}
}

// isBusy tells whether an operation runs that an operation on the attachment would have to wait for.
func (c *Controller) isBusy(a *attachedVolume) bool {
	return c.executor.Pending(operationKey(a.Volume, a.Spec, a.Node))
}

// confirm asks the plugin whether an attachment that was uncertain has become what an operation made of it. What the
// plugin's cache showed meanwhile may be from before.
//
// Differs: upstream does not ask: an old cache makes it take for attached what is being detached, and for detached what it
// has not seen yet (I16b, I20).
func (c *Controller) confirm(ctx context.Context, volume corev1.UniqueVolumeName, node types.NodeName, want plugins.AttachState) error {
	verifier, name := c.verifier(volume)
	if verifier == nil {
		return nil
	}
	is, err := verifier.Verify(ctx, name, node)
	if err == nil && is != want {
		err = fmt.Errorf("the attachment to node %q is %s, and should be %s", node, is, want)
	}
	return err
}

// verifier is who knows of a volume where it is attached, and the name by which it does; nil: nobody.
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
