package nodeports

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/internal/hostports"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "NodePorts"

const reason = "node(s) didn't have free ports for the requested pod ports"

// Plugin rejects nodes on which a port that the pod asks for is in use.
type Plugin struct{ unfit *framework.Status }

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
)

// New returns the plugin.
func New(framework.Handle) *Plugin {
	return &Plugin{unfit: framework.NewStatus(framework.Unschedulable, reason)}
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// PreFilter skips the plugin if the pod asks for no port.
func (*Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	if !hostports.Any(cycle.APIPod()) {
		return nil, framework.SkipCycle
	}
	return nil, nil
}

// Filter rejects a node on which a port is in use.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if hostports.Conflict(cycle.APIPod(), node.APIPods()) {
		return p.unfit
	}
	return nil
}

// Events returns that of a new node, and of a pod that gives up a port.
func (*Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.Pod, Action: framework.Delete, Hint: freesPort},
		{Resource: framework.Node, Action: framework.Add},
	}
}

func freesPort(pod *corev1.Pod, old, _ any) bool {
	was, _ := old.(*corev1.Pod)
	if was == nil || was.Spec.NodeName == "" && was.Status.NominatedNodeName == "" {
		return false
	}
	return hostports.Conflict(pod, slices.Values([]*corev1.Pod{was}))
}
