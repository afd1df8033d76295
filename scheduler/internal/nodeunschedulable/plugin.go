package nodeunschedulable

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "NodeUnschedulable"

const reason = "node(s) were unschedulable"

// Plugin rejects nodes that are cordoned, unless the pod tolerates the taint of such nodes.
type Plugin struct{ unfit *framework.Status }

var _ framework.Filterer = (*Plugin)(nil)

// New returns the plugin.
func New(framework.Handle) *Plugin {
	return &Plugin{unfit: framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)}
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// taint is that of a cordoned node. It must not be changed.
var taint = &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// Filter rejects a node that is cordoned.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if node.Node.Spec.Unschedulable && !framework.Tolerates(cycle.APIPod(), taint) {
		return p.unfit
	}
	return nil
}

// Events returns the changes of a node and of the pod itself that make a difference.
func (*Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.Node, Action: framework.Add | framework.UpdateNodeTaint, Hint: isUncordoned},
		{Resource: framework.Pod, Action: framework.UpdatePodToleration, Hint: isTolerated},
	}
}

func isUncordoned(_ *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	return is != nil && !is.Spec.Unschedulable && (was == nil || was.Spec.Unschedulable)
}

func isTolerated(pod *corev1.Pod, _, new any) bool {
	is, _ := new.(*corev1.Pod)
	return is != nil && is.UID == pod.UID && framework.Tolerates(is, taint)
}
