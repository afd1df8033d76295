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
	eventhandler.Add(pods, c.podChanged, c.podGone)
	eventhandler.Add(nodes, c.nodeChanged, func(*corev1.Node) { c.enqueue(c.pending.all()) })
	eventhandler.Add(claims, c.claimChanged, func(claim *corev1.PersistentVolumeClaim) { c.claimChanged(nil, claim) })
	eventhandler.Add(volumes, c.volumeChanged, nil)
	eventhandler.Add(classes, func(_, _ *storagev1.StorageClass) { c.enqueue(c.pending.all()) }, nil)
}

// watchLimits registers what may make room on a node.
func (c *Controller) watchLimits(csiNodes, attachments cache.SharedIndexInformer) {
	eventhandler.Add(csiNodes, func(was, is *storagev1.CSINode) {
		if isLimitRaised(was, is) {
			c.enqueue(sorted(c.limitBlocked))
		}
	}, nil)
	eventhandler.Add(attachments, func(_, _ *storagev1.VolumeAttachment) {}, func(*storagev1.VolumeAttachment) {
		c.enqueue(sorted(c.limitBlocked))
	})
}

// podLeft lets the pods be looked at that may have been waiting for a pod to leave its node, or not to come there.
func (c *Controller) podLeft(pod *corev1.Pod) {
	c.enqueueSharers(pod)
	if len(pod.Spec.Volumes) > 0 {
		c.enqueue(sorted(c.limitBlocked))
	}
}

func (c *Controller) enqueue(keys []cache.ObjectName) {
	for _, key := range keys {
		c.queue.Add(key)
	}
}

// enqueueSharers lets the pods be looked at that use a claim that the given pod uses, or used.
func (c *Controller) enqueueSharers(pod *corev1.Pod) {
	for _, name := range claimNames(pod) {
		c.enqueue(c.pending.using(cache.NewObjectName(pod.Namespace, name)))
	}
}

func (c *Controller) podChanged(was, is *corev1.Pod) {
	key := cache.MetaObjectToName(is)
	if !isWaiting(is) {
		c.pending.remove(key)
		delete(c.placed, is.UID)
		delete(c.backingOff, is.UID)
		delete(c.limitBlocked, key)
		if isOver(is) || is.Spec.NodeName == "" {
			c.podLeft(is)
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
	delete(c.backingOff, pod.UID)
	delete(c.limitBlocked, cache.MetaObjectToName(pod))
	c.podLeft(pod)
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
