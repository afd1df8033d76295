package schedulerconfig

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// A Point is a point at which plugins act.
type Point string

// The points at which plugins of the scheduler act.
const (
	PreEnqueue Point = "PreEnqueue"
	QueueSort  Point = "QueueSort"
	PreFilter  Point = "PreFilter"
	Filter     Point = "Filter"
	PostFilter Point = "PostFilter"
	PreScore   Point = "PreScore"
	Score      Point = "Score"
	Reserve    Point = "Reserve"
	PreBind    Point = "PreBind"
	Bind       Point = "Bind"

	permit   Point = "Permit"
	postBind Point = "PostBind"
)

// A Plugin is a plugin that acts at a point.
type Plugin struct {
	Name   string
	Weight int64 // of its scores, at point Score
}

// knownPlugin is one of upstream's plugins.
type knownPlugin struct {
	name   string
	weight int32 // 0: 1
	points []Point
}

// The plugins, in upstream's default order, and the points at which they act.
//
// Upstream: pkg/scheduler/apis/config/v1 getDefaultPlugins (v1.36).
var known = []knownPlugin{
	{name: "SchedulingGates", points: []Point{PreEnqueue}},
	{name: "PrioritySort", points: []Point{QueueSort}},
	{name: "NodeUnschedulable", points: []Point{Filter}},
	{name: "NodeName", points: []Point{Filter}},
	{name: "TaintToleration", weight: 3, points: []Point{Filter, PreScore, Score}},
	{name: "NodeAffinity", weight: 2, points: []Point{PreFilter, Filter, PreScore, Score}},
	{name: "NodePorts", points: []Point{PreFilter, Filter}},
	{name: "NodeResourcesFit", weight: 1, points: []Point{PreFilter, Filter, PreScore, Score}},
	{name: "VolumeRestrictions", points: []Point{PreFilter, Filter}},
	{name: "NodeVolumeLimits", points: []Point{PreFilter, Filter}},
	{name: "VolumeBinding", points: []Point{PreFilter, Filter, Reserve, PreBind, PreScore, Score}},
	{name: "VolumeZone", points: []Point{PreFilter, Filter}},
	{name: "PodTopologySpread", weight: 2, points: []Point{PreFilter, Filter, PreScore, Score}},
	{name: "InterPodAffinity", weight: 2, points: []Point{PreFilter, Filter, PreScore, Score}},
	{name: "DefaultPreemption", points: []Point{PostFilter, PreEnqueue}},
	{name: "NodeResourcesBalancedAllocation", weight: 1, points: []Point{PreScore, Score}},
	{name: "ImageLocality", weight: 1, points: []Point{Score}},
	{name: "DefaultBinder", points: []Point{Bind}},
}

// unsupportedPlugins are upstream's plugins that the scheduler does not have, and what they are for.
var unsupportedPlugins = map[string]string{
	"DynamicResources":           "dynamic resource allocation",
	"GangScheduling":             "pod groups",
	"NodeDeclaredFeatures":       "declared features of nodes",
	"PodGroupPodsCount":          "pod groups",
	"TopologyPlacementGenerator": "pod groups",
}

func unsupported(plugin string) error {
	return fmt.Errorf("plugin %q is not supported: the scheduler has no %s; remove it", plugin, unsupportedPlugins[plugin])
}

func pluginNamed(name string) *knownPlugin {
	if i := slices.IndexFunc(known, func(k knownPlugin) bool { return k.name == name }); i >= 0 {
		return &known[i]
	}
	return nil
}

// pointSet is what a profile says about a point.
type pointSet struct {
	point Point
	set   *configv1.PluginSet
}

// pointSets returns the sets of all points, in the order in which upstream checks them.
//
// Upstream: pkg/scheduler/framework/runtime getExtensionPoints (v1.36).
func pointSets(p *configv1.Plugins) []pointSet {
	return []pointSet{
		{PreFilter, &p.PreFilter},
		{Filter, &p.Filter},
		{PostFilter, &p.PostFilter},
		{Reserve, &p.Reserve},
		{PreScore, &p.PreScore},
		{Score, &p.Score},
		{PreBind, &p.PreBind},
		{Bind, &p.Bind},
		{postBind, &p.PostBind},
		{permit, &p.Permit},
		{PreEnqueue, &p.PreEnqueue},
		{QueueSort, &p.QueueSort},
	}
}

// enabledAnywhere returns the names of plugins that are enabled at any point.
func enabledAnywhere(p *configv1.Plugins) map[string]bool {
	names := map[string]bool{}
	for _, s := range append(pointSets(p), pointSet{set: &p.MultiPoint}) {
		for _, plugin := range s.set.Enabled {
			names[plugin.Name] = true
		}
	}
	return names
}

// withDefaultPlugins returns the default plugins with the changes of a profile.
//
// Upstream: pkg/scheduler/apis/config/v1 mergePlugins (v1.36).
func withDefaultPlugins(changes *configv1.Plugins) *configv1.Plugins {
	merged := &configv1.Plugins{}
	for _, k := range known {
		plugin := configv1.Plugin{Name: k.name}
		if k.weight > 0 {
			plugin.Weight = &k.weight
		}
		merged.MultiPoint.Enabled = append(merged.MultiPoint.Enabled, plugin)
	}
	if changes == nil {
		return merged
	}
	merged.MultiPoint = mergeSets(merged.MultiPoint, changes.MultiPoint)
	of := pointSets(changes)
	for i, s := range pointSets(merged) {
		*s.set = mergeSets(*s.set, *of[i].set)
	}
	return merged
}

// mergeSets returns default plugins without those that are disabled, with others that are enabled. One
// that is enabled again stays at its place.
//
// Upstream: pkg/scheduler/apis/config/v1 mergePluginSet (v1.36).
func mergeSets(defaults, changes configv1.PluginSet) configv1.PluginSet {
	merged := configv1.PluginSet{}
	disabled := map[string]bool{}
	for _, plugin := range changes.Disabled {
		disabled[plugin.Name] = true
		merged.Disabled = append(merged.Disabled, configv1.Plugin{Name: plugin.Name})
	}
	last := map[string]int{} // the last entry of a name counts
	for i, plugin := range changes.Enabled {
		last[plugin.Name] = i
	}
	replaced := map[int]bool{}
	for _, plugin := range defaults.Enabled {
		if disabled["*"] || disabled[plugin.Name] {
			continue
		}
		if i, ok := last[plugin.Name]; ok {
			plugin, replaced[i] = changes.Enabled[i], true
		}
		merged.Enabled = append(merged.Enabled, plugin)
	}
	for i, plugin := range changes.Enabled {
		if !replaced[i] {
			merged.Enabled = append(merged.Enabled, plugin)
		}
	}
	return merged
}

// expand returns which plugins act at which point.
//
// Upstream: pkg/scheduler/framework/runtime NewFramework, expandMultiPointPlugins (v1.36).
func expand(p *configv1.Plugins, scheduler string) (map[Point][]Plugin, error) {
	all := map[Point][]Plugin{}
	for _, s := range pointSets(p) {
		if err := checkEnabled(s.point, s.set); err != nil {
			return nil, err
		}
	}
	for _, s := range pointSets(p) {
		names, err := namesAt(s, &p.MultiPoint)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			plugin := Plugin{Name: name}
			if s.point == Score {
				plugin.Weight = weightOf(name, append(slices.Clone(p.Score.Enabled), p.MultiPoint.Enabled...))
			}
			all[s.point] = append(all[s.point], plugin)
		}
	}
	if n := len(all[QueueSort]); n != 1 {
		return nil, fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d", scheduler, n)
	}
	if len(all[Bind]) == 0 {
		return nil, fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", scheduler)
	}
	return all, nil
}

// checkEnabled checks the plugins that are enabled at one point.
//
// Upstream: pkg/scheduler/framework/runtime updatePluginList (v1.36).
func checkEnabled(point Point, set *configv1.PluginSet) error {
	for i, plugin := range set.Enabled {
		switch k := pluginNamed(plugin.Name); {
		case k == nil:
			return missing(point, plugin.Name)
		case !slices.Contains(k.points, point):
			return fmt.Errorf("plugin %q does not extend %sPlugin plugin", plugin.Name, point)
		case slices.ContainsFunc(set.Enabled[:i], func(p configv1.Plugin) bool { return p.Name == plugin.Name }):
			return fmt.Errorf("plugin %q already registered as %q", plugin.Name, point+"Plugin")
		}
	}
	return nil
}

func missing(point Point, name string) error {
	if unsupportedPlugins[name] != "" {
		return unsupported(name)
	}
	return fmt.Errorf("%sPlugin %q does not exist", point, name)
}

// namesAt returns the plugins that act at a point: first those of all points that the point enables
// again, in its order, then others of all points, then its own.
func namesAt(at pointSet, everywhere *configv1.PluginSet) ([]string, error) {
	disabled := func(name string) bool {
		return slices.ContainsFunc(at.set.Disabled, func(p configv1.Plugin) bool { return p.Name == name })
	}
	var own, again, others []string
	for _, plugin := range at.set.Enabled {
		own = append(own, plugin.Name)
	}
	if disabled("*") {
		return own, nil
	}
	for _, plugin := range everywhere.Enabled {
		k := pluginNamed(plugin.Name)
		switch {
		case k == nil:
			return nil, missing(at.point, plugin.Name)
		case !slices.Contains(k.points, at.point) || disabled(plugin.Name):
		case slices.Contains(own, plugin.Name):
			again = append(again, plugin.Name)
		case slices.Contains(others, plugin.Name):
			return nil, fmt.Errorf("plugin %q already registered as %q", plugin.Name, at.point+"Plugin")
		default:
			others = append(others, plugin.Name)
		}
	}
	isAgain := func(name string) bool { return slices.Contains(again, name) }
	var names []string
	for _, name := range own {
		if isAgain(name) {
			names = append(names, name)
		}
	}
	return append(append(names, others...), slices.DeleteFunc(own, isAgain)...), nil
}

// weightOf returns the weight of the first entry of a plugin.
//
// Upstream: pkg/scheduler/framework/runtime getValidScoreWeights (v1.36).
func weightOf(name string, entries []configv1.Plugin) int64 {
	for _, plugin := range entries {
		if plugin.Name == name && plugin.Weight != nil && *plugin.Weight != 0 {
			return int64(*plugin.Weight)
		}
		if plugin.Name == name {
			break
		}
	}
	return 1
}
