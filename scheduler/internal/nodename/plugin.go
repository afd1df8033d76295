package nodename

import "github.com/volsim/volsim/scheduler/internal/framework"

// Name is the name of the plugin.
const Name = "NodeName"

const reason = "node(s) didn't match the requested node name"

// Plugin rejects nodes other than the one that the pod names.
type Plugin struct{ unfit *framework.Status }

var _ framework.Filterer = (*Plugin)(nil)

// New returns the plugin.
func New(framework.Handle) *Plugin {
	return &Plugin{unfit: framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)}
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Filter rejects a node that is not the one of spec.nodeName.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if name := cycle.APIPod().Spec.NodeName; name != "" && name != node.Name() {
		return p.unfit
	}
	return nil
}

// Events returns that of a new node.
func (*Plugin) Events() []framework.EventHint {
	return []framework.EventHint{{Resource: framework.Node, Action: framework.Add}}
}
