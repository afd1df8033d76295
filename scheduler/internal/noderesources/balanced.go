package noderesources

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// BalancedName is the name of the plugin BalancedAllocation.
const BalancedName = "NodeResourcesBalancedAllocation"

// BalancedAllocation prefers nodes whose resources will be in use to the same share.
type BalancedAllocation struct{ resources []configv1.ResourceSpec }

var _ framework.Scorer = (*BalancedAllocation)(nil)

// NewBalancedAllocation returns the plugin.
func NewBalancedAllocation(_ framework.Handle, args *configv1.NodeResourcesBalancedAllocationArgs) (*BalancedAllocation, error) {
	args = args.DeepCopy()
	if err := schedulerconfig.CompleteArgs(args); err != nil {
		return nil, err
	}
	return &BalancedAllocation{resources: args.Resources}, nil
}

// Name returns the name of the plugin.
func (*BalancedAllocation) Name() string { return BalancedName }

// Events returns none: the plugin rejects no pod.
func (*BalancedAllocation) Events() []framework.EventHint { return nil }

// PreScore skips the plugin if the pod requests none of the resources: many such pods would come to one node.
func (b *BalancedAllocation) PreScore(cycle *framework.Cycle, _ []*framework.NodeInfo) *framework.Status {
	var none framework.NodeInfo
	for i := range b.resources {
		if usageOf(cycle.Pod, &none, corev1.ResourceName(b.resources[i].Name), asRequested).wanted > 0 {
			return nil
		}
	}
	return framework.SkipCycle
}

// Score compares the balance of a node with the pod and without it: 100 is the largest improvement, 75 none, and
// 50 the largest loss.
func (b *BalancedAllocation) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	with, without := b.balance(cycle, node, true), b.balance(cycle, node, false)
	return framework.MaxScore/2 + (framework.MaxScore/2+with-without)/2, nil
}

// Normalize leaves the scores.
func (*BalancedAllocation) Normalize(*framework.Cycle, []int64) *framework.Status { return nil }

// balance returns 100, less the standard deviation of the shares in use as a percentage.
//
// Upstream: plugins/noderesources balancedResourceScore (v1.36).
func (b *BalancedAllocation) balance(cycle *framework.Cycle, node *framework.NodeInfo, withPod bool) int64 {
	var buffer [8]float64
	shares, sum := buffer[:0], 0.0
	for i := range b.resources {
		u := usageOf(cycle.Pod, node, corev1.ResourceName(b.resources[i].Name), asRequested)
		if u.allocatable == 0 {
			continue
		}
		used := u.used
		if withPod {
			used += u.wanted
		}
		share := min(float64(used)/float64(u.allocatable), 1)
		shares, sum = append(shares, share), sum+share
	}
	return int64((1 - deviation(shares, sum)) * float64(framework.MaxScore))
}

func deviation(shares []float64, sum float64) float64 {
	switch len(shares) {
	case 0, 1:
		return 0
	case 2:
		return math.Abs((shares[0] - shares[1]) / 2)
	}
	mean, squares := sum/float64(len(shares)), 0.0
	for _, share := range shares {
		squares += (share - mean) * (share - mean)
	}
	return math.Sqrt(squares / float64(len(shares)))
}
