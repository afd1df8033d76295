package podgc

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/workload"
)

// caches are the caches from which the controller decides.
type caches struct {
	nodes       corelisters.NodeLister
	podList     corelisters.PodLister
	podStore    cache.Store
	nodesSynced func() bool
	podsSynced  func() bool
}

func cachesOf(seen informers.SharedInformerFactory) caches {
	nodes, pods := seen.Core().V1().Nodes(), seen.Core().V1().Pods()
	return caches{
		nodes: nodes.Lister(), podList: pods.Lister(), podStore: pods.Informer().GetStore(),
		nodesSynced: nodes.Informer().HasSynced, podsSynced: pods.Informer().HasSynced,
	}
}

// Concerns reports whether a change of a Node or a pod concerns the controller, according to what its
// caches have seen. old is nil for a new object, obj for a deleted one.
func Concerns(seen informers.SharedInformerFactory, old, obj metav1.Object) bool {
	c := cachesOf(seen)
	switch {
	case isNode(old) || isNode(obj):
		before, _ := old.(*corev1.Node)
		after, _ := obj.(*corev1.Node)
		return c.concernsNode(before, after)
	case obj == nil:
		return c.isOrphan(old.(*corev1.Pod)) // the last one ends a quarantine
	default:
		pod := obj.(*corev1.Pod)
		before, _ := old.(*corev1.Pod)
		// A new pod is not in the cache yet.
		return c.concernsPod(pod) || finished(pod) && (before == nil || !finished(before)) && c.crowded(terminatedMax-1)
	}
}

func isNode(obj metav1.Object) bool {
	_, is := obj.(*corev1.Node)
	return is
}

// concernsPod reports whether a pod may have to be removed.
func (c caches) concernsPod(pod *corev1.Pod) bool {
	return !c.nodesSynced() || c.isOrphan(pod) || c.isLost(pod)
}

// concernsNode reports whether a Node appears, disappears or goes out of service that has pods.
func (c caches) concernsNode(old, node *corev1.Node) bool {
	if old != nil && node != nil && (isOutOfService(old) || !isOutOfService(node)) {
		return false
	}
	name := ""
	if node != nil {
		name = node.Name
	} else if old != nil {
		name = old.Name
	}
	return c.podsSynced() && len(c.podsOf(name)) > 0
}

// crowded reports whether there may be more finished pods than the limit, which is none if negative.
func (c caches) crowded(limit int) bool { return limit >= 0 && len(c.podStore.ListKeys()) > limit }

// isOrphan reports whether the cache lacks the Node of a pod.
func (c caches) isOrphan(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	_, err := c.nodes.Get(pod.Spec.NodeName)
	return err != nil // a lister fails with NotFound only
}

// isLost reports whether a pod is terminating and no kubelet will end it: it has no Node, or one that
// is out of service.
func (c caches) isLost(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	if pod.Spec.NodeName == "" {
		return true
	}
	node, err := c.nodes.Get(pod.Spec.NodeName)
	return err == nil && isOutOfService(node)
}

// podsOf returns the pods of a Node, in order of their keys.
func (c caches) podsOf(node string) []*corev1.Pod { return workload.PodsOn(c.podList, node) }

// isOutOfService reports whether a Node is not ready and has the taint of a node that is shut down.
func isOutOfService(node *corev1.Node) bool {
	return !isReady(node) && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

// Upstream: pkg/util/node IsNodeReady (v1.36).
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// finished reports whether a pod has ended.
//
// Upstream: pkg/controller/podgc isPodTerminated (v1.36), which counts a pod without a phase, too.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
