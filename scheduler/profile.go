package scheduler

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/dynamicresources"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A profile schedules the pods with its name as schedulerName.
type profile struct {
	*Controller

	plugins    pluginSet
	percentage int // PercentageOfNodesToScore
	hints      map[string][]framework.EventHint
}

// pluginSet are the plugins of a profile by what they do, in their order.
type pluginSet struct {
	gates       []framework.PreEnqueuer
	preFilters  []framework.PreFilterer
	filters     []framework.Filterer
	postFilters []framework.PostFilterer
	scorers     []scorer
	reservers   []framework.Reserver
	preBinders  []framework.PreBinder
}

// scorer is a plugin that ranks nodes, and its weight.
type scorer struct {
	framework.Scorer
	weight int64
}

// profileOf returns the profile of a pod, nil if another scheduler is responsible for it.
func (c *Controller) profileOf(pod *corev1.Pod) *profile {
	return c.profiles[cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)]
}

// newProfile makes the plugins of a profile.
//
// Upstream: pkg/scheduler/framework/runtime NewFramework (v1.36).
func (c *Controller) newProfile(cfg *schedulerconfig.Profile) (*profile, error) {
	p := &profile{Controller: c, percentage: cfg.PercentageOfNodesToScore, hints: map[string][]framework.EventHint{
		noNodes: {{Resource: framework.Node, Action: framework.Add}},
	}}
	if err := p.addPlugins(cfg); err != nil {
		return nil, err
	}
	claims := dynamicresources.New(c.handle)
	p.plugins.preFilters = append(p.plugins.preFilters, claims)
	p.plugins.postFilters = append([]framework.PostFilterer{claims}, p.plugins.postFilters...)
	if len(c.extenders) > 0 {
		p.hints[extender.Name] = everything()
	}
	return p, nil
}

// addPlugins makes the plugins that a configuration names, and adds them where they act.
func (p *profile) addPlugins(cfg *schedulerconfig.Profile) error {
	made := map[string]framework.Plugin{}
	for _, at := range []struct {
		point schedulerconfig.Point
		add   func(plugin framework.Plugin, weight int64)
	}{
		{schedulerconfig.PreEnqueue, addTo(&p.plugins.gates)},
		{schedulerconfig.PreFilter, addTo(&p.plugins.preFilters)},
		{schedulerconfig.Filter, addTo(&p.plugins.filters)},
		{schedulerconfig.PostFilter, addTo(&p.plugins.postFilters)},
		{schedulerconfig.Reserve, addTo(&p.plugins.reservers)},
		{schedulerconfig.PreBind, addTo(&p.plugins.preBinders)},
		{schedulerconfig.Score, p.plugins.addScorer},
	} {
		for _, entry := range cfg.Plugins[at.point] {
			if _, ok := made[entry.Name]; !ok {
				plugin, err := p.newPlugin(entry.Name, cfg)
				if err != nil {
					return fmt.Errorf("initializing plugin %q: %w", entry.Name, err)
				}
				made[entry.Name] = plugin
				p.register(plugin)
			}
			at.add(made[entry.Name], entry.Weight)
		}
	}
	return nil
}

// addTo returns a function that adds plugins of an interface to a list.
func addTo[P framework.Plugin](list *[]P) func(framework.Plugin, int64) {
	return func(plugin framework.Plugin, _ int64) {
		if p, ok := plugin.(P); ok {
			*list = append(*list, p)
		}
	}
}

func (s *pluginSet) addScorer(plugin framework.Plugin, weight int64) {
	if p, ok := plugin.(framework.Scorer); ok {
		s.scorers = append(s.scorers, scorer{p, weight})
	}
}

// register notes what makes pods schedulable that a plugin rejected, and lets it continue placements. nil is
// a plugin that does nothing here.
func (p *profile) register(plugin framework.Plugin) {
	if plugin == nil {
		return
	}
	p.hints[plugin.Name()] = plugin.Events()
	if w, ok := plugin.(framework.Waker); ok {
		w.OnWake(p.wake)
	}
}
