package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
)

// watch registers the handlers that requeue pending pods.
//
// Upstream: pkg/scheduler addAllEventHandlers and the plugins' queueing hints (v1.36).
//
// Differs: a requeued pod is tried at once. Upstream backs off for 1 s to 10 s after each attempt.
func (c *Controller) watch(pods, nodes, claims, volumes, classes cache.SharedIndexInformer) {
	eventhandler.Add(pods, c.podChanged, c.podGone)
	eventhandler.Add(nodes, c.nodeChanged, func(*corev1.Node) { c.enqueue(c.pending.all()) })
	eventhandler.Add(claims, c.claimChanged, func(claim *corev1.PersistentVolumeClaim) { c.claimChanged(nil, claim) })
	eventhandler.Add(volumes, c.volumeChanged, nil)
	eventhandler.Add(classes, func(_, _ *storagev1.StorageClass) { c.enqueue(c.pending.all()) }, nil)
}

// watchLimits registers the handlers for changes that may make room on a node.
func (c *Controller) watchLimits(csiNodes, attachments cache.SharedIndexInformer) {
	eventhandler.Add(csiNodes, func(old, node *storagev1.CSINode) {
		if isLimitRaised(old, node) {
			c.enqueue(sorted(c.limitBlocked))
		}
	}, nil)
	eventhandler.Add(attachments, func(_, _ *storagev1.VolumeAttachment) {}, func(*storagev1.VolumeAttachment) {
		c.enqueue(sorted(c.limitBlocked))
	})
}

// podLeft requeues the pods that may have waited for a pod to leave its node.
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

// enqueueSharers queues the pods that share a claim with the given pod.
func (c *Controller) enqueueSharers(pod *corev1.Pod) {
	for _, name := range claimNames(pod) {
		c.enqueue(c.pending.using(cache.NewObjectName(pod.Namespace, name)))
	}
}

func (c *Controller) podChanged(old, pod *corev1.Pod) {
	key := cache.MetaObjectToName(pod)
	if !isWaiting(pod) {
		c.pending.remove(key)
		delete(c.placed, pod.UID)
		delete(c.backingOff, pod.UID)
		delete(c.limitBlocked, key)
		if isOver(pod) || pod.Spec.NodeName == "" {
			c.podLeft(pod)
		}
		return
	}
	c.pending.put(pod)
	if old == nil || !sameForScheduling(old, pod) {
		c.queue.Add(key)
	}
}

// sameForScheduling reports whether two versions of a pod differ at most in status.
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

func (c *Controller) nodeChanged(old, node *corev1.Node) {
	if old == nil || old.Spec.Unschedulable != node.Spec.Unschedulable || readiness(old) != readiness(node) ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) || !equality.Semantic.DeepEqual(old.Labels,
		node.Labels) {
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
