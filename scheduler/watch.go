package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
)

// watch registers what makes a pod worth another look.
//
// Upstream: pkg/scheduler addAllEventHandlers and the plugins' queueing hints (v1.36).
//
// Differs: such a pod is looked at at once; upstream lets it rest 1 s to 10 s after each attempt.
func (c *Controller) watch(pods, nodes, claims, volumes, classes cache.SharedIndexInformer) {
	eventhandler.To(pods, c.podChanged, c.podGone)
	eventhandler.To(nodes, c.nodeChanged, func(*corev1.Node) { c.enqueue(c.pending.all()) })
	eventhandler.To(claims, c.claimChanged, func(claim *corev1.PersistentVolumeClaim) { c.claimChanged(nil, claim) })
	eventhandler.To(volumes, c.volumeChanged, nil)
	eventhandler.To(classes, func(_, _ *storagev1.StorageClass) { c.enqueue(c.pending.all()) }, nil)
}

// watchLimits registers what may make room on a node.
func (c *Controller) watchLimits(csiNodes, attachments cache.SharedIndexInformer) {
	eventhandler.To(csiNodes, func(was, is *storagev1.CSINode) {
		if raised(was, is) {
			c.enqueue(sorted(c.crowded))
		}
	}, nil)
	eventhandler.To(attachments, func(_, _ *storagev1.VolumeAttachment) {}, func(*storagev1.VolumeAttachment) {
		c.enqueue(sorted(c.crowded))
	})
}

// left lets the pods be looked at that may have been waiting for a pod to leave its node, or not to come there.
func (c *Controller) left(pod *corev1.Pod) {
	c.enqueueRivals(pod)
	if len(pod.Spec.Volumes) > 0 {
		c.enqueue(sorted(c.crowded))
	}
}

func (c *Controller) enqueue(keys []cache.ObjectName) {
	for _, key := range keys {
		c.queue.Add(key)
	}
}

// enqueueRivals lets the pods be looked at that use a claim that the given pod uses, or used.
func (c *Controller) enqueueRivals(pod *corev1.Pod) {
	for _, name := range claimNames(pod) {
		c.enqueue(c.pending.using(cache.NewObjectName(pod.Namespace, name)))
	}
}

func (c *Controller) podChanged(was, is *corev1.Pod) {
	key := cache.MetaObjectToName(is)
	if !isWaiting(is) {
		c.pending.remove(key)
		delete(c.placed, is.UID)
		delete(c.resting, is.UID)
		delete(c.crowded, key)
		if isOver(is) || is.Spec.NodeName == "" {
			c.left(is)
		}
		return
	}
	c.pending.put(is)
	if was == nil || !sameForScheduling(was, is) {
		c.queue.Add(key)
	}
}

// sameForScheduling tells whether nothing changed but what schedulers and kubelets say of a pod.
func sameForScheduling(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}

func (c *Controller) podGone(pod *corev1.Pod) {
	c.pending.remove(cache.MetaObjectToName(pod))
	delete(c.placed, pod.UID)
	delete(c.resting, pod.UID)
	delete(c.crowded, cache.MetaObjectToName(pod))
	c.left(pod)
}

func (c *Controller) nodeChanged(was, is *corev1.Node) {
	if was == nil || was.Spec.Unschedulable != is.Spec.Unschedulable || readiness(was) != readiness(is) ||
		!equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints) || !equality.Semantic.DeepEqual(was.Labels, is.Labels) {
		c.enqueue(c.pending.all())
	}
}

func (c *Controller) claimChanged(_, claim *corev1.PersistentVolumeClaim) {
	key := cache.MetaObjectToName(claim)
	if written, ok := c.written[key]; ok && !isNewer(written, claim) {
		delete(c.written, key)
	}
	c.enqueue(c.pending.using(key))
}

func (c *Controller) volumeChanged(_, volume *corev1.PersistentVolume) {
	if ref := volume.Spec.ClaimRef; ref != nil {
		c.enqueue(c.pending.using(cache.NewObjectName(ref.Namespace, ref.Name)))
	}
}
