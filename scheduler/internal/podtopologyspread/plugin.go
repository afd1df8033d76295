package podtopologyspread

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "PodTopologySpread"

const (
	reasonSkew  = "node(s) didn't match pod topology spread constraints"
	reasonLabel = reasonSkew + " (missing required label)"
)

// Plugin rejects nodes whose domains have too many pods already, and prefers domains with few.
type Plugin struct {
	hard, soft       []constraint // of pods without any; their selectors are those of owners
	owners           *owners      // nil: there are no default constraints
	isSystem         bool         // the defaults are systemDefaults
	skewed, labelled *framework.Status
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.PodChanger  = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
	_ framework.Scorer      = (*Plugin)(nil)
)

// New returns the plugin. With default constraints it needs the caches of Services, ReplicationControllers,
// ReplicaSets and StatefulSets.
func New(h framework.Handle, args *configv1.PodTopologySpreadArgs) (*Plugin, error) {
	args = args.DeepCopy()
	if err := schedulerconfig.CompleteArgs(args); err != nil {
		return nil, err
	}
	p := &Plugin{
		isSystem: args.DefaultingType == configv1.SystemDefaulting,
		skewed:   framework.NewStatus(framework.Unschedulable, reasonSkew),
		labelled: framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonLabel),
	}
	defaults := args.DefaultConstraints
	if p.isSystem {
		defaults = systemDefaults
	}
	if len(defaults) == 0 {
		return p, nil
	}
	p.owners = newOwners(h.Informers)
	var err error
	if p.hard, err = constraintsOf(defaults, nil, corev1.DoNotSchedule); err != nil {
		return nil, err
	}
	p.soft, err = constraintsOf(defaults, nil, corev1.ScheduleAnyway)
	return p, err
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// hardConstraints returns the constraints that must hold for a pod.
func (p *Plugin) hardConstraints(pod *corev1.Pod) ([]constraint, error) {
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		return p.withDefaultSelector(p.hard, pod), nil
	}
	found, err := constraintsOf(pod.Spec.TopologySpreadConstraints, pod.Labels, corev1.DoNotSchedule)
	if err != nil {
		return nil, fmt.Errorf("obtaining pod's hard topology spread constraints: %w", err)
	}
	return found, nil
}

// softConstraints returns the constraints that should hold for a pod.
func (p *Plugin) softConstraints(pod *corev1.Pod) ([]constraint, error) {
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		return p.withDefaultSelector(p.soft, pod), nil
	}
	found, err := constraintsOf(pod.Spec.TopologySpreadConstraints, pod.Labels, corev1.ScheduleAnyway)
	if err != nil {
		return nil, fmt.Errorf("obtaining pod's soft topology spread constraints: %w", err)
	}
	return found, nil
}

// withDefaultSelector returns default constraints for a pod, none if it has no services and no controller.
func (p *Plugin) withDefaultSelector(defaults []constraint, pod *corev1.Pod) []constraint {
	if len(defaults) == 0 {
		return nil
	}
	selector := p.owners.selector(pod)
	if selector.Empty() {
		return nil
	}
	defaults = slices.Clone(defaults)
	for i := range defaults {
		defaults[i].selector = selector
	}
	return defaults
}
