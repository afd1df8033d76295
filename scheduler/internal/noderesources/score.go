package noderesources

import (
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// usage is how much of a resource of a node is in use.
type usage struct {
	used        int64
	wanted      int64 // by the pod
	allocatable int64 // 0: the resource does not count
}

// Whether containers without requests count a default.
const (
	asRequested = false
	nonZero     = true
)

// usageOf returns the usage of a resource. A resource that only some nodes have does not count unless the pod
// requests it.
//
// Upstream: plugins/noderesources calculateNodeAllocatableRequest (v1.36).
func usageOf(pod *framework.PodInfo, node *framework.NodeInfo, name corev1.ResourceName, defaults bool) usage {
	if node.Unlimited {
		return usage{allocatable: 1}
	}
	switch {
	case name == corev1.ResourceCPU && defaults:
		return usage{node.NonZeroMilliCPU, pod.NonZeroMilliCPU, node.Allocatable.MilliCPU}
	case name == corev1.ResourceCPU:
		return usage{node.Requested.MilliCPU, pod.Requests.MilliCPU, node.Allocatable.MilliCPU}
	case name == corev1.ResourceMemory && defaults:
		return usage{node.NonZeroMemory, pod.NonZeroMemory, node.Allocatable.Memory}
	case name == corev1.ResourceMemory:
		return usage{node.Requested.Memory, pod.Requests.Memory, node.Allocatable.Memory}
	case name == corev1.ResourceEphemeralStorage:
		return usage{node.Requested.EphemeralStorage, pod.Requests.EphemeralStorage, node.Allocatable.EphemeralStorage}
	case pod.Requests.Scalar[name] == 0:
		return usage{}
	default:
		return usage{node.Requested.Scalar[name], pod.Requests.Scalar[name], node.Allocatable.Scalar[name]}
	}
}

// scorer returns the score of a resource, and whether it counts.
type scorer func(u usage) (score int64, counts bool)

func newScorer(strategy *configv1.ScoringStrategy) scorer {
	switch strategy.Type {
	case configv1.MostAllocated:
		return mostAllocated
	case configv1.RequestedToCapacityRatio:
		return ratio(strategy.RequestedToCapacityRatio.Shape)
	default:
		return leastAllocated
	}
}

// Upstream: plugins/noderesources leastResourceScorer (v1.36).
func leastAllocated(u usage) (int64, bool) {
	free := max(u.allocatable-u.used-u.wanted, 0)
	return free * framework.MaxScore / u.allocatable, true
}

// Upstream: plugins/noderesources mostResourceScorer (v1.36).
func mostAllocated(u usage) (int64, bool) {
	used := min(u.used+u.wanted, u.allocatable)
	return used * framework.MaxScore / u.allocatable, true
}

// ratio returns the scorer of a function of the share in use. A resource with the score 0 does not count.
//
// Upstream: plugins/noderesources buildRequestedToCapacityRatioScorerFunction (v1.36).
func ratio(shape []configv1.UtilizationShapePoint) scorer {
	byShare := framework.NewShape(shape)
	return func(u usage) (int64, bool) {
		share := int64(100)
		if u.used+u.wanted <= u.allocatable {
			share = (u.used + u.wanted) * 100 / u.allocatable
		}
		score := byShare.At(share)
		return score, score > 0
	}
}
