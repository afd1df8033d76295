package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// nominations are the pods without a node for which there is, or will be, room on one.
//
// Upstream: pkg/scheduler/backend/queue nominator (v1.36).
type nominations struct {
	nodes map[types.UID]string
	pods  map[string][]*framework.PodInfo // by node, in the order in which they came
}

func newNominations() nominations {
	return nominations{nodes: map[types.UID]string{}, pods: map[string][]*framework.PodInfo{}}
}

// set nominates a node for a pod; "" ends its nomination.
func (n *nominations) set(pod *corev1.Pod, node string) {
	if before, ok := n.nodes[pod.UID]; ok {
		delete(n.nodes, pod.UID)
		var others []*framework.PodInfo
		for _, p := range n.pods[before] {
			if p.Pod.UID != pod.UID {
				others = append(others, p)
			}
		}
		if n.pods[before] = others; len(others) == 0 {
			delete(n.pods, before)
		}
	}
	if node != "" {
		info, _ := framework.NewPodInfo(pod) // invalid terms are left out
		n.nodes[pod.UID] = node
		n.pods[node] = append(n.pods[node], info)
	}
}

// on returns the pods that are nominated for a node and not less important than a pod, without that pod.
func (n *nominations) on(node string, pod *corev1.Pod) []*framework.PodInfo {
	var found []*framework.PodInfo
	for _, p := range n.pods[node] {
		if p.Pod.UID != pod.UID && corev1helpers.PodPriority(p.Pod) >= corev1helpers.PodPriority(pod) {
			found = append(found, p)
		}
	}
	return found
}

// of returns the pods that are nominated for a node.
func (n *nominations) of(node string) []*framework.PodInfo { return n.pods[node] }
