package volumebinding

import (
	"cmp"
	"math"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// DefaultShape prefers nodes with much free storage.
//
// Upstream: SetDefaults_VolumeBindingArgs (v1.36).
var DefaultShape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}

// storageUse is how much storage of a class a pod would use.
type storageUse struct{ requested, capacity int64 }

// PreScore implements framework.Scorer.
func (p *Plugin) PreScore(cycle *framework.Cycle, _ []*framework.NodeInfo) *framework.Status {
	if !p.args.StorageCapacityScoring || stateOf(cycle) == nil {
		return framework.SkipCycle
	}
	return nil
}

// Score ranks a node by the existing volumes that the pod would get; if there are none, by the storage of which
// it would get new ones.
//
// Upstream: Score (v1.36).
func (p *Plugin) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	s := stateOf(cycle)
	if s == nil || s.byNode[node.Node.Name] == nil {
		return 0, nil
	}
	volumes := s.byNode[node.Node.Name]
	classes := map[string]storageUse{}
	for _, b := range volumes.bindings {
		use := classes[b.volume.Spec.StorageClassName]
		requested, capacity := b.claim.Spec.Resources.Requests[corev1.ResourceStorage], b.volume.Spec.Capacity[corev1.ResourceStorage]
		use.requested += requested.Value()
		use.capacity += capacity.Value()
		classes[b.volume.Spec.StorageClassName] = use
	}
	if len(volumes.bindings) == 0 {
		for _, v := range volumes.provisions {
			if v.capacity == nil {
				continue
			}
			use := classes[v.capacity.StorageClassName]
			requested := v.claim.Spec.Resources.Requests[corev1.ResourceStorage]
			use.requested += requested.Value()
			use.capacity = cmp.Or(v.capacity.Capacity, v.capacity.MaximumVolumeSize).Value() // all claims of the class share it
			classes[v.capacity.StorageClassName] = use
		}
	}
	return scoreOf(classes, p.shape), nil
}

// Normalize implements framework.Scorer.
func (p *Plugin) Normalize(*framework.Cycle, []int64) *framework.Status { return nil }

// scoreOf returns the mean score of classes.
//
// Upstream: buildScorerFunction (v1.36).
func scoreOf(classes map[string]storageUse, shape framework.Shape) int64 {
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, use := range classes {
		utilization := int64(100)
		if use.capacity != 0 && use.requested <= use.capacity {
			utilization = use.requested * 100 / use.capacity
		}
		sum += shape.At(utilization)
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}
