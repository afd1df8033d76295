package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// noNodes stands for a plugin that rejects pods while there is no node.
//
// Differs: upstream tries such pods again and again.
const noNodes = "no nodes"

// watch registers the handlers that keep the cache and the queue.
//
// Upstream: pkg/scheduler addAllEventHandlers (v1.36).
func (c *Controller) watch(from informers.SharedInformerFactory) {
	wanted := map[framework.EventResource]bool{}
	for _, p := range c.profiles {
		for _, hints := range p.hints {
			for i := range hints {
				wanted[hints[i].Resource] = true
			}
		}
	}
	core, storage := from.Core().V1(), from.Storage().V1()
	eventhandler.Add(core.Pods().Informer(), c.podChanged, c.podGone)
	eventhandler.Add(core.Nodes().Informer(), c.nodeChanged, c.nodeGone)
	forward(c, wanted, framework.PersistentVolumeClaim, core.PersistentVolumeClaims().Informer, (*corev1.PersistentVolumeClaim)(nil))
	forward(c, wanted, framework.PersistentVolume, core.PersistentVolumes().Informer, (*corev1.PersistentVolume)(nil))
	forward(c, wanted, framework.StorageClass, storage.StorageClasses().Informer, (*storagev1.StorageClass)(nil))
	forward(c, wanted, framework.CSINode, storage.CSINodes().Informer, (*storagev1.CSINode)(nil))
	forward(c, wanted, framework.CSIDriver, storage.CSIDrivers().Informer, (*storagev1.CSIDriver)(nil))
	forward(c, wanted, framework.CSIStorageCapacity, storage.CSIStorageCapacities().Informer, (*storagev1.CSIStorageCapacity)(nil))
	forward(c, wanted, framework.VolumeAttachment, storage.VolumeAttachments().Informer, (*storagev1.VolumeAttachment)(nil))
}

// forward passes the changes of a kind to the queue if a plugin wants them.
func forward[T any, P interface {
	*T
	metav1.Object
}](c *Controller, wanted map[framework.EventResource]bool, kind framework.EventResource, informer func() cache.SharedIndexInformer, _ P) {
	if !wanted[kind] {
		return
	}
	eventhandler.Add(informer(), func(old, obj P) {
		event := framework.Event{Resource: kind, Action: framework.Add, New: obj}
		if old != nil {
			event.Action, event.Old = framework.UpdateOther, old
		}
		c.queue.happened(event)
	}, func(obj P) {
		c.queue.happened(framework.Event{Resource: kind, Action: framework.Delete, Old: obj})
	})
}

// podChanged notes a pod: it has a node, waits for one, or does neither.
func (c *Controller) podChanged(old, pod *corev1.Pod) {
	switch {
	case isOver(pod):
		if old == nil || !isOver(old) {
			c.podGone(pod)
		}
	case pod.Spec.NodeName != "":
		c.podAssigned(old, pod)
	case !c.isWaiting(pod):
		c.podGone(pod)
	case c.placed[pod.UID] != nil: // it is on its way
	case old == nil || !c.isWaiting(old):
		c.queue.add(pod)
		c.nominated.set(pod, pod.Status.NominatedNodeName)
	default:
		c.queue.update(old, pod)
		c.nominationChanged(old, pod)
	}
}

// podAssigned notes a pod on a node.
func (c *Controller) podAssigned(old, pod *corev1.Pod) {
	event := framework.Event{Resource: framework.Pod, Action: framework.Add, New: pod}
	if old != nil && old.Spec.NodeName != "" {
		event.Action, event.Old = framework.PodChanges(old, pod), old
	} else {
		c.queue.remove(pod.UID)
		c.nominated.set(pod, "")
		c.confirm(pod)
	}
	c.cache.SetPod(pod)
	c.queue.happened(event)
}

// confirm ends the placement of a pod that has a node now. If another scheduler assigned it, what was
// reserved is given back.
func (c *Controller) confirm(pod *corev1.Pod) {
	p := c.placed[pod.UID]
	switch {
	case p == nil:
	case p.node != pod.Spec.NodeName || !p.checked || len(p.left) > 0:
		c.forget(p)
	default:
		delete(c.placed, pod.UID)
	}
}

// podGone notes that a pod is not there any more, or needs no node.
func (c *Controller) podGone(pod *corev1.Pod) {
	c.queue.remove(pod.UID)
	c.nominated.set(pod, "")
	if p := c.placed[pod.UID]; p != nil {
		c.forget(p)
		c.queue.happened(framework.Event{Resource: framework.Pod, Action: framework.Delete, Old: assigned(pod, p.node)})
		return
	}
	if c.cache.RemovePod(pod.UID) || pod.Status.NominatedNodeName != "" {
		c.queue.happened(framework.Event{Resource: framework.Pod, Action: framework.Delete, Old: pod})
	}
}

// nominationChanged notes the nomination of a pod. Others may use the room that it does not need any
// more.
//
// Upstream: pkg/scheduler updatePodInSchedulingQueue (v1.36).
func (c *Controller) nominationChanged(old, pod *corev1.Pod) {
	before, now := old.Status.NominatedNodeName, pod.Status.NominatedNodeName
	if before == now {
		return
	}
	c.nominated.set(pod, now)
	if before != "" {
		c.queue.happened(framework.Event{Resource: framework.Pod, Action: framework.Delete, Old: old})
	}
}

// sameForScheduling reports whether two versions of a pod differ at most in status.
//
// Upstream: pkg/scheduler/backend/queue isPodUpdated (v1.36).
func sameForScheduling(a, b *corev1.Pod) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

func (c *Controller) nodeChanged(old, node *corev1.Node) {
	c.cache.SetNode(node)
	event := framework.Event{Resource: framework.Node, Action: framework.Add, New: node}
	if old != nil {
		event.Action, event.Old = framework.NodeChanges(old, node), old
	}
	if event.Action != 0 {
		c.queue.happened(event)
	}
}

func (c *Controller) nodeGone(node *corev1.Node) {
	c.cache.RemoveNode(node.Name)
	c.queue.happened(framework.Event{Resource: framework.Node, Action: framework.Delete, Old: node})
}
