package kubelet

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/hostports"
)

// The rejection of a pod whose ports of the node another pod has.
//
// Upstream: pkg/scheduler/framework/plugins/nodeports Name, ErrReason; pkg/kubelet/lifecycle
// PredicateFailureError (v1.36).
const (
	reasonPorts  = "NodePorts"
	messagePorts = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)

// admit rejects a new pod if another pod of the node has one of the ports of the node that it asks
// for. The rejected pod fails; it does not wait for the port.
//
// Differs: upstream also checks resources, node affinity, taints and the operating system, and
// checks running pods again after a restart.
//
// Upstream: pkg/kubelet/lifecycle predicateAdmitHandler.Admit (v1.36).
func (k *Kubelet) admit(pod *corev1.Pod) {
	if pod == nil || !hostports.Any(pod) || k.added[pod.UID] != nil || k.rejected[pod.UID] != nil || !shouldRun(pod) ||
		pod.Status.Phase == corev1.PodRunning {
		return
	}
	if hostports.Conflict(pod, k.admitted) {
		k.rejected[pod.UID] = &rejection{reason: reasonPorts, message: messagePorts}
	}
}

// admitted yields the pods whose containers run or may start, in no particular order.
func (k *Kubelet) admitted(yield func(*corev1.Pod) bool) {
	for uid, pod := range k.known {
		if (k.added[uid] != nil || k.lifecycleOf(pod) == running) && !yield(pod) {
			return
		}
	}
}
