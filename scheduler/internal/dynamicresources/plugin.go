package dynamicresources

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "DynamicResources"

// Plugin is the plugin.
type Plugin struct{ none *framework.Status }

var (
	_ framework.PreFilterer  = (*Plugin)(nil)
	_ framework.PostFilterer = (*Plugin)(nil)
)

// New returns the plugin.
func New(framework.Handle) *Plugin {
	return &Plugin{none: framework.NewStatus(framework.Unschedulable, "no new claims to deallocate")}
}

// Name implements framework.Plugin.
func (p *Plugin) Name() string { return Name }

// Events implements framework.Plugin. The plugin rejects no pod.
func (p *Plugin) Events() []framework.EventHint { return nil }

// PreFilter notes that it was called.
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	cycle.Write(Name, p)
	return nil, framework.SkipCycle
}

// errNotFound is the error if an earlier plugin rejected the pod, so that PreFilter was not called.
var errNotFound = errors.New("not found")

// PostFilter finds no claim to deallocate.
func (p *Plugin) PostFilter(_ context.Context, cycle *framework.Cycle, _ *framework.Diagnosis) (nominated string, clear bool, status *framework.Status) {
	if cycle.Read(Name) == nil {
		return "", false, framework.AsStatus(errNotFound)
	}
	return "", false, p.none
}
