package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// operationKey is the key under which a volume is attached to and detached from a node: its own for each node where the
// volume may be on several, else one for all.
//
// Upstream: pkg/volume/util/operationexecutor AttachVolume, DetachVolume (v1.36).
func operationKey(volume corev1.UniqueVolumeName, spec *plugins.Spec, node types.NodeName) executor.Key {
	if plugins.MultiAttachAllowed(spec) {
		return executor.Key{Volume: volume, Node: node}
	}
	return executor.Key{Volume: volume}
}

// blockers returns the attachments because of which a volume for one node only must not be attached to this one: all
// others.
//
// Differs: upstream counts confirmed attachments only, so that a volume whose detach failed, or whose attach did in a way
// that may still succeed, is attached to a second node (DELIBERATE BUT DANGEROUS since kubernetes PR 71276, I15).
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

// reportMultiAttach tells the pods that wait for the volume, once, that it is attached elsewhere.
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
	c.recordEvents(d.Pods(), corev1.EventTypeWarning, FailedAttachVolume, func(pod *corev1.Pod) string {
		return multiAttachMessage(d.Spec, pod, others)
	})
}
