package tainteviction

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	if node, is := cmp.Or(obj, old).(*corev1.Node); is {
		before, _ := old.(*corev1.Node)
		after, _ := obj.(*corev1.Node)
		return after != nil && !sameTaints(before, after) && (!c.podsSynced() || len(c.podsOf(node.Name)) > 0)
	}
	before, _ := old.(*corev1.Pod)
	after, _ := obj.(*corev1.Pod)
	if samePlace(before, after) {
		return false
	}
	return before != nil && c.mayBeScheduled(before) || after != nil && (c.isTainted(after) || !c.nodesSynced())
}

// mayBeScheduled reports whether the eviction of a pod may be scheduled. The deletion of its node does
// not change that.
func (c caches) mayBeScheduled(pod *corev1.Pod) bool {
	_, err := c.nodes.Get(pod.Spec.NodeName)
	return pod.Spec.NodeName != "" && (err != nil || c.isTainted(pod))
}

// isTainted reports whether a pod is on a node with taints.
func (c caches) isTainted(pod *corev1.Pod) bool {
	node, err := c.nodes.Get(pod.Spec.NodeName)
	return err == nil && len(noExecute(node)) > 0
}

// pod returns a pod, or nil.
func (c caches) pod(key string) *corev1.Pod {
	obj, exists, err := c.podStore.GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	return obj.(*corev1.Pod)
}

// podsOf returns the pods of a node, in order of their keys.
func (c caches) podsOf(node string) []*corev1.Pod { return workload.PodsOn(c.podList, node) }

// sameTaints reports whether a node has the taints that it had. old may be nil.
func sameTaints(old, node *corev1.Node) bool {
	return equality.Semantic.DeepEqual(noExecute(old), noExecute(node))
}

// samePlace reports whether neither the node of a pod nor its tolerations have changed. Either pod may
// be nil.
func samePlace(old, pod *corev1.Pod) bool {
	return old != nil && pod != nil && old.UID == pod.UID && old.Spec.NodeName == pod.Spec.NodeName &&
		equality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations)
}
