package framework

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeInfo is a node with the pods that are on it or assumed to be. It is not changed.
//
// Upstream: pkg/scheduler/framework NodeInfo (v1.36).
type NodeInfo struct {
	Node *corev1.Node // nil: there are pods on a node that is not known
	Pods []*PodInfo   // by namespace and name

	WithAffinity             []*PodInfo // the pods with any affinity to other pods, or against
	WithRequiredAntiAffinity []*PodInfo

	Requested                      Resource // without the number of pods
	NonZeroMilliCPU, NonZeroMemory int64
	Allocatable                    Resource
	// Unlimited says that the Node reports no resources at all.
	//
	// Differs: upstream assigns no pod to such a node.
	Unlimited bool
}

// NewNodeInfo returns the information of a node without pods.
func NewNodeInfo(node *corev1.Node) *NodeInfo { return (&NodeInfo{}).withNode(node) }

// Name returns the name of the node.
func (n *NodeInfo) Name() string { return n.Node.Name }

// APIPods returns the pods.
func (n *NodeInfo) APIPods() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, pod := range n.Pods {
			if !yield(pod.Pod) {
				return
			}
		}
	}
}

// withNode returns the information with another version of the Node.
func (n *NodeInfo) withNode(node *corev1.Node) *NodeInfo {
	changed := *n
	changed.Node = node
	changed.Allocatable, changed.Unlimited = Resource{}, false
	if node != nil {
		changed.Allocatable = NewResource(node.Status.Allocatable)
		changed.Unlimited = len(node.Status.Allocatable)+len(node.Status.Capacity) == 0
	}
	return &changed
}

// With returns the information with one more pod.
func (n *NodeInfo) With(pod *PodInfo) *NodeInfo {
	changed := *n
	changed.Pods = inserted(n.Pods, pod)
	if affinity := pod.Pod.Spec.Affinity; affinity != nil {
		if affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil {
			changed.WithAffinity = inserted(n.WithAffinity, pod)
		}
		if len(pod.RequiredAntiAffinity) > 0 {
			changed.WithRequiredAntiAffinity = inserted(n.WithRequiredAntiAffinity, pod)
		}
	}
	changed.count(1, pod)
	return &changed
}

// Without returns the information without a pod.
func (n *NodeInfo) Without(uid types.UID) *NodeInfo {
	i := slices.IndexFunc(n.Pods, func(p *PodInfo) bool { return p.Pod.UID == uid })
	if i < 0 {
		return n
	}
	changed := *n
	changed.Pods = removed(n.Pods, uid)
	changed.WithAffinity = removed(n.WithAffinity, uid)
	changed.WithRequiredAntiAffinity = removed(n.WithRequiredAntiAffinity, uid)
	changed.count(-1, n.Pods[i])
	return &changed
}

func (n *NodeInfo) count(sign int64, pod *PodInfo) {
	n.Requested = n.Requested.plus(sign, pod.Requests)
	n.NonZeroMilliCPU += sign * pod.NonZeroMilliCPU
	n.NonZeroMemory += sign * pod.NonZeroMemory
}

func inserted(pods []*PodInfo, pod *PodInfo) []*PodInfo {
	i, _ := slices.BinarySearchFunc(pods, pod, comparePods)
	all := make([]*PodInfo, 0, len(pods)+1)
	return append(append(append(all, pods[:i]...), pod), pods[i:]...)
}

func removed(pods []*PodInfo, uid types.UID) []*PodInfo {
	isIt := func(p *PodInfo) bool { return p.Pod.UID == uid }
	if !slices.ContainsFunc(pods, isIt) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), isIt)
}

func comparePods(a, b *PodInfo) int {
	return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
}
