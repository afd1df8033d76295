package tainttoleration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "TaintToleration"

const reason = "node(s) had untolerated taint(s)"

// Plugin rejects nodes with taints that the pod does not tolerate, and prefers nodes with few taints of
// the effect PreferNoSchedule.
type Plugin struct{ unfit *framework.Status }

var (
	_ framework.Filterer = (*Plugin)(nil)
	_ framework.Scorer   = (*Plugin)(nil)
)

// New returns the plugin.
func New(framework.Handle) *Plugin {
	return &Plugin{unfit: framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)}
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Filter rejects a node with a taint that the pod does not tolerate.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if framework.UntoleratedTaint(cycle.APIPod(), node.Node) != nil {
		return p.unfit
	}
	return nil
}

// PreScore skips the plugin if no node has a taint that matters.
//
// Differs: upstream gives each node the highest score then. The order of the nodes is the same.
func (*Plugin) PreScore(_ *framework.Cycle, nodes []*framework.NodeInfo) *framework.Status {
	for _, node := range nodes {
		if slices.ContainsFunc(node.Node.Spec.Taints, isPreference) {
			return nil
		}
	}
	return framework.SkipCycle
}

func isPreference(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectPreferNoSchedule }

// Score returns the number of taints of the effect PreferNoSchedule that the pod does not tolerate.
func (*Plugin) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	var count int64
	for i := range node.Node.Spec.Taints {
		if taint := &node.Node.Spec.Taints[i]; isPreference(*taint) && !framework.Tolerates(cycle.APIPod(), taint) {
			count++
		}
	}
	return count, nil
}

// Normalize gives nodes without such taints the highest score.
func (*Plugin) Normalize(_ *framework.Cycle, scores []int64) *framework.Status {
	framework.ScaleScores(scores, true)
	return nil
}

// Events returns the changes of a node and of the pod itself that make a difference.
//
// Differs: so does the readiness of a node.
func (*Plugin) Events() []framework.EventHint {
	const ofNode = framework.Add | framework.UpdateNodeTaint | framework.UpdateNodeCondition
	return []framework.EventHint{
		{Resource: framework.Node, Action: ofNode, Hint: isUntainted},
		{Resource: framework.Pod, Action: framework.UpdatePodToleration, Hint: isSame},
	}
}

func isUntainted(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	if is == nil || framework.UntoleratedTaint(pod, is) != nil {
		return false
	}
	return was == nil || framework.UntoleratedTaint(pod, was) != nil
}

func isSame(pod *corev1.Pod, _, new any) bool {
	is, _ := new.(*corev1.Pod)
	return is != nil && is.UID == pod.UID
}
