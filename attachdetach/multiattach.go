package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// operationKey returns the key of attach and detach operations. A volume that may be on several
// nodes has one key for each node, any other volume has one key.
//
// Upstream: pkg/volume/util/operationexecutor AttachVolume, DetachVolume (v1.36).
func operationKey(volume corev1.UniqueVolumeName, spec *plugins.Spec, node types.NodeName) executor.Key {
	if plugins.MultiAttachAllowed(spec) {
		return executor.Key{Volume: volume, Node: node}
	}
	return executor.Key{Volume: volume}
}

// blockers returns the attachments that prevent an attach of a single-node volume: those on all
// other nodes.
//
// Differs: upstream counts confirmed attachments only. After a failed detach, or a failed attach
// that may still succeed, it attaches the volume to a second node (DELIBERATE BUT DANGEROUS since
// kubernetes PR 71276, I15).
//
// Upstream: pkg/controller/volume/attachdetach/cache GetNodesForAttachedVolume (v1.36).
func (c *Controller) blockers(d *desiredVolume) []*attachedVolume {
	if plugins.MultiAttachAllowed(d.Spec) {
		return nil
	}
	var others []*attachedVolume
	for _, a := range c.actual.Attachments(d.Volume) {
		if a.Node != d.Node {
			others = append(others, a)
		}
	}
	return others
}

// reportMultiAttach records once, on the waiting pods, that the volume is attached elsewhere.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reportMultiAttachError (v1.36).
func (c *Controller) reportMultiAttach(d *desiredVolume, blockers []*attachedVolume) {
	if d.multiAttachReported {
		return
	}
	d.multiAttachReported = true
	var others []*corev1.Pod
	for _, a := range blockers {
		if w := c.desired.Get(a.Volume, a.Node); w != nil {
			others = append(others, w.Pods()...)
		}
	}
	c.recordEvents(d.Pods(), corev1.EventTypeWarning, reasonFailedAttach, func(pod *corev1.Pod) string {
		return multiAttachMessage(d.Spec, pod, others)
	})
}
