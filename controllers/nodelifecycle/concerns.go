package nodelifecycle

import (
	"cmp"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/workload"
)

// caches are the caches from which the controller decides.
type caches struct {
	nodeList     corelisters.NodeLister
	leases       coordinationlisters.LeaseLister
	podList      corelisters.PodLister
	podStore     cache.Store
	nodesSynced  func() bool
	leasesSynced func() bool
}

func cachesOf(seen informers.SharedInformerFactory) caches {
	// The first one to be created lists first.
	leases := seen.Coordination().V1().Leases()
	nodes, pods := seen.Core().V1().Nodes(), seen.Core().V1().Pods()
	return caches{
		leases: leases.Lister(), nodeList: nodes.Lister(), podList: pods.Lister(), podStore: pods.Informer().GetStore(),
		leasesSynced: leases.Informer().HasSynced, nodesSynced: nodes.Informer().HasSynced,
	}
}

// Concerns reports whether a change of a Lease, a Node or a pod concerns the controller with
// Config.LeasedOnly, according to what its caches have seen. old is nil for a new object, obj for a
// deleted one.
func Concerns(seen informers.SharedInformerFactory, old, obj metav1.Object) bool {
	switch current := cmp.Or(obj, old).(type) {
	case *coordinationv1.Lease:
		return current.Namespace == corev1.NamespaceNodeLease && (old == nil || obj == nil)
	case *corev1.Node:
		c := cachesOf(seen)
		before, _ := old.(*corev1.Node)
		after, _ := obj.(*corev1.Node)
		return (!c.leasesSynced() || c.lease(current.Name) != nil) && differ(before, after)
	case *corev1.Pod:
		c := cachesOf(seen)
		before, _ := old.(*corev1.Pod)
		return obj != nil && assigned(before, current) && podReady(current) != nil &&
			(!c.nodesSynced() || c.isSilent(current.Spec.NodeName))
	default:
		return false
	}
}

// differ reports whether a Node has changed in what the controller looks at. Either may be nil.
func differ(old, node *corev1.Node) bool {
	if old == nil || node == nil {
		return true
	}
	beat := func(node *corev1.Node) *metav1.Time {
		if ready := condition(node, corev1.NodeReady); ready != nil {
			return &ready.LastHeartbeatTime
		}
		return nil
	}
	return old.UID != node.UID || !beat(old).Equal(beat(node)) ||
		old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!slices.Equal(unschedulable(old), unschedulable(node)) ||
		(condition(old, corev1.NodeReady) == nil) != (condition(node, corev1.NodeReady) == nil) ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels)
}

// isSilent reports whether a node is monitored and not ready.
func (c caches) isSilent(name string) bool {
	node := c.node(name)
	if node == nil || c.leasesSynced() && c.lease(name) == nil {
		return false
	}
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status != corev1.ConditionTrue
}

// assigned reports whether a pod has been bound to a node. old is nil if the pod is new.
func assigned(old, pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && (old == nil || old.Spec.NodeName != pod.Spec.NodeName)
}

// all returns all Nodes.
func (c caches) all() []*corev1.Node {
	nodes, err := c.nodeList.List(labels.Everything())
	if err != nil {
		return nil // a lister does not fail
	}
	return nodes
}

// node returns a Node, or nil.
func (c caches) node(name string) *corev1.Node {
	node, err := c.nodeList.Get(name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	return node
}

// lease returns the Lease of a node, or nil.
func (c caches) lease(name string) *coordinationv1.Lease {
	lease, err := c.leases.Leases(corev1.NamespaceNodeLease).Get(name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	return lease
}

// podsOf returns the pods of a node, in order of their keys.
func (c caches) podsOf(node string) []*corev1.Pod { return workload.PodsOn(c.podList, node) }

func keyOf(pod *corev1.Pod) string { return cache.MetaObjectToName(pod).String() }
