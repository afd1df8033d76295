package configdiff

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/internal/schedulerconfig"
)

// without are upstream's plugins that volsim does not have. Every drawn profile disables them.
var without = []string{"DynamicResources", "GangScheduling", "NodeDeclaredFeatures", "PodGroupPodsCount", "TopologyPlacementGenerator"}

// A result is what follows from a configuration, as text.
type result struct {
	errs     []string
	profiles []string
}

// upstreams returns upstream's result.
func upstreams(text []byte) result {
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return result{errs: []string{"decode: " + err.Error()}}
	}
	cfg := obj.(*config.KubeSchedulerConfiguration)
	cfg.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return result{errs: texts(err)}
	}
	var r result
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		f, err := frameworkruntime.NewFramework(context.Background(), plugins.NewInTreeRegistry(), p,
			frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)),
			frameworkruntime.WithSnapshotSharedLister(cache.NewEmptySnapshot()))
		if err != nil {
			return result{errs: []string{err.Error()}}
		}
		percentage := cfg.PercentageOfNodesToScore
		if p.PercentageOfNodesToScore != nil {
			percentage = p.PercentageOfNodesToScore
		}
		r.profiles = append(r.profiles, fmt.Sprintf("%s %d %d %d", p.SchedulerName, *percentage, cfg.PodInitialBackoffSeconds, cfg.PodMaxBackoffSeconds))
		r.profiles = append(r.profiles, pointsOf(f.ListPlugins())...)
		for _, c := range p.PluginConfig {
			if c.Args == nil || slices.Contains(without, c.Name) {
				continue
			}
			args, err := configv1.GetPluginArgConversionScheme().ConvertToVersion(c.Args, configv1.SchemeGroupVersion)
			if err != nil {
				continue // of an unknown plugin
			}
			r.profiles = append(r.profiles, argsText(c.Name, args))
		}
	}
	return r
}

func pointsOf(p *config.Plugins) []string {
	var lines []string
	for _, at := range []struct {
		name string
		set  config.PluginSet
	}{
		{"PreEnqueue", p.PreEnqueue},
		{"QueueSort", p.QueueSort},
		{"PreFilter", p.PreFilter},
		{"Filter", p.Filter},
		{"PostFilter", p.PostFilter},
		{"PreScore", p.PreScore},
		{"Score", p.Score},
		{"Reserve", p.Reserve},
		{"PreBind", p.PreBind},
		{"Bind", p.Bind},
	} {
		line := at.name
		for _, plugin := range at.set.Enabled {
			line += fmt.Sprintf(" %s:%d", plugin.Name, plugin.Weight)
		}
		lines = append(lines, line)
	}
	return lines
}

func argsText(name string, args any) string {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	delete(fields, "kind")
	delete(fields, "apiVersion")
	return fmt.Sprint(name, " ", fields)
}

// objects are values in errors: upstream shows those of its internal types, volsim those of the file.
var objects = regexp.MustCompile(`\[?\{.*\}\]?`)

func texts(err error) []string {
	if all, ok := err.(utilerrors.Aggregate); ok { //nolint:errorlint // it is not wrapped
		var lines []string
		for _, e := range all.Errors() {
			lines = append(lines, objects.ReplaceAllString(e.Error(), "…"))
		}
		slices.Sort(lines)
		return lines
	}
	return []string{err.Error()}
}

// ours returns volsim's result.
func ours(text []byte) result {
	file, err := schedulerconfig.Parse(text)
	if err != nil {
		return result{errs: []string{"decode: " + err.Error()}}
	}
	cfg, err := schedulerconfig.New(file, schedulerconfig.Features{})
	if err != nil {
		return result{errs: texts(err)}
	}
	var r result
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		r.profiles = append(r.profiles, fmt.Sprintf("%s %d %d %d", p.SchedulerName, p.PercentageOfNodesToScore,
			int(cfg.PodInitialBackoff.Seconds()), int(cfg.PodMaxBackoff.Seconds())))
		for _, point := range []schedulerconfig.Point{
			schedulerconfig.PreEnqueue, schedulerconfig.QueueSort, schedulerconfig.PreFilter, schedulerconfig.Filter,
			schedulerconfig.PostFilter, schedulerconfig.PreScore, schedulerconfig.Score, schedulerconfig.Reserve,
			schedulerconfig.PreBind, schedulerconfig.Bind,
		} {
			line := string(point)
			for _, plugin := range p.Plugins[point] {
				line += fmt.Sprintf(" %s:%d", plugin.Name, plugin.Weight)
			}
			r.profiles = append(r.profiles, line)
		}
		for name, args := range map[string]any{
			"DefaultPreemption": p.DefaultPreemption, "InterPodAffinity": p.InterPodAffinity, "NodeAffinity": p.NodeAffinity,
			"NodeResourcesBalancedAllocation": p.NodeResourcesBalancedAllocation, "NodeResourcesFit": p.NodeResourcesFit,
			"PodTopologySpread": p.PodTopologySpread, "VolumeBinding": p.VolumeBinding,
		} {
			r.profiles = append(r.profiles, argsText(name, args))
		}
	}
	return r
}

// differs returns how two results differ, "" if they do not.
func differs(theirs, ours result) string {
	rest := slices.DeleteFunc(slices.Clone(ours.errs), func(text string) bool {
		return strings.Contains(text, ".args.scoringStrategy") || strings.Contains(text, ".args.ignoredResource")
	})
	if len(rest) < len(ours.errs) { // upstream's plugin checks its arguments itself, later, and only if it is enabled
		if len(rest) == 0 {
			return ""
		}
		ours.errs = rest
	}
	switch {
	case len(theirs.errs) == 1 && len(ours.errs) == 1:
		if strings.HasSuffix(ours.errs[0], theirs.errs[0]) {
			return ""
		}
	case len(theirs.errs) == 0 && len(ours.errs) == 0:
		// The arguments of plugins that are not enabled have no effect.
		own := map[string]bool{}
		for _, line := range ours.profiles {
			own[line] = true
		}
		for _, line := range theirs.profiles {
			if !own[line] {
				return cmp.Diff(theirs.profiles, ours.profiles)
			}
		}
		return ""
	}
	return cmp.Diff(theirs.errs, ours.errs)
}

// A tree is a part of a configuration.
type tree = map[string]any

var pluginNames = []string{
	"SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
	"NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
	"InterPodAffinity", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder",
}

// pointsWith are the points at which plugins are drawn, with plugins that act there.
var pointsWith = map[string][]string{
	"multiPoint": pluginNames,
	"preFilter":  {"NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeBinding", "VolumeZone", "InterPodAffinity"},
	"filter":     {"NodeName", "TaintToleration", "NodeResourcesFit", "VolumeBinding", "VolumeZone"},
	"preScore":   {"TaintToleration", "NodeAffinity", "NodeResourcesBalancedAllocation"},
	"score":      {"TaintToleration", "NodeResourcesFit", "VolumeBinding", "ImageLocality", "NodeResourcesBalancedAllocation"},
	"reserve":    {"VolumeBinding"}, "preBind": {"VolumeBinding"}, "postFilter": {"DefaultPreemption"},
	"queueSort": {"PrioritySort"}, "bind": {"DefaultBinder"}, "preEnqueue": {"SchedulingGates", "DefaultPreemption"},
	"permit": {}, "postBind": {},
}

func rarely(t *rapid.T, label string) bool { return rapid.IntRange(0, 29).Draw(t, label) == 0 }

func drawSet(t *rapid.T, point string) tree {
	names := func(label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(pluginNames), 0, 3, rapid.ID).Draw(t, label)
	}
	var enabled, disabled []any
	pool := pointsWith[point]
	if len(pool) > 0 {
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(pool), 0, 3).Draw(t, "enabled") {
			plugin := tree{"name": name}
			if rapid.Bool().Draw(t, "weighted") {
				plugin["weight"] = rapid.IntRange(0, 5).Draw(t, "weight")
			}
			if rapid.IntRange(0, 3).Draw(t, "repeated") == 0 || !slices.ContainsFunc(enabled, func(p any) bool { return p.(tree)["name"] == name }) {
				enabled = append(enabled, plugin)
			}
		}
	}
	if rarely(t, "odd") {
		enabled = append(enabled, tree{"name": rapid.SampledFrom(append([]string{"Coscheduling", "EBSLimits"}, pluginNames...)).Draw(t, "odd name")})
	}
	for _, name := range names("disabled") {
		if name != "PrioritySort" && name != "DefaultBinder" || rarely(t, "disable a necessary one") {
			disabled = append(disabled, tree{"name": name})
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "none") == 0 && point != "multiPoint" {
		disabled = append(disabled, tree{"name": "*"})
	}
	if point == "multiPoint" {
		for _, name := range without {
			disabled = append(disabled, tree{"name": name})
		}
	}
	set := tree{}
	if len(enabled) > 0 {
		set["enabled"] = enabled
	}
	if len(disabled) > 0 {
		set["disabled"] = disabled
	}
	return set
}

var shape = rapid.Custom(func(t *rapid.T) any {
	points := []any{}
	for i := range rapid.IntRange(0, 3).Draw(t, "points") {
		points = append(points, tree{"utilization": i*40 + rapid.IntRange(-1, 30).Draw(t, "utilization"), "score": rapid.IntRange(-1, 11).Draw(t, "score")})
	}
	return points
})

// drawArgs draws arguments of a plugin, with some that are invalid.
func drawArgs(t *rapid.T, plugin string) tree {
	args := tree{}
	maybe := func(field string, draw func() any) {
		if rapid.Bool().Draw(t, field) {
			args[field] = draw()
		}
	}
	number := func(from, to int) func() any { return func() any { return rapid.IntRange(from, to).Draw(t, "number") } }
	resources := func() any {
		var list []any
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"cpu", "memory", "example.com/disk"}), 0, 3).Draw(t, "resources") {
			list = append(list, tree{"name": name, "weight": rapid.SampledFrom([]int{0, 1, 1, 1, 2, 101, -1}).Draw(t, "weight")})
		}
		return list
	}
	switch plugin {
	case "DefaultPreemption":
		maybe("minCandidateNodesPercentage", number(-1, 101))
		maybe("minCandidateNodesAbsolute", number(-1, 3))
	case "InterPodAffinity":
		maybe("hardPodAffinityWeight", number(-1, 101))
		maybe("ignorePreferredTermsOfExistingPods", func() any { return true })
	case "NodeAffinity":
		maybe("addedAffinity", func() any {
			terms := []any{tree{"matchExpressions": []any{tree{"key": "zone", "operator": rapid.SampledFrom([]string{"In", "Exists", "Near"}).Draw(t, "operator"), "values": []string{"a"}}}}}
			return tree{
				"requiredDuringSchedulingIgnoredDuringExecution":  tree{"nodeSelectorTerms": terms},
				"preferredDuringSchedulingIgnoredDuringExecution": []any{tree{"weight": 1, "preference": terms[0]}},
			}
		})
	case "NodeResourcesBalancedAllocation":
		maybe("resources", resources)
	case "NodeResourcesFit":
		maybe("ignoredResources", func() any { return []string{rapid.SampledFrom([]string{"example.com/a", "a b"}).Draw(t, "ignored")} })
		maybe("ignoredResourceGroups", func() any { return []string{rapid.SampledFrom([]string{"example.com", "a/b"}).Draw(t, "ignored")} })
		maybe("scoringStrategy", func() any {
			strategy := tree{"type": rapid.SampledFrom([]string{"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "Best"}).Draw(t, "type"), "resources": resources()}
			if rapid.Bool().Draw(t, "ratio") {
				strategy["requestedToCapacityRatio"] = tree{"shape": shape.Draw(t, "shape")}
			}
			return strategy
		})
	case "PodTopologySpread":
		maybe("defaultingType", func() any { return rapid.SampledFrom([]string{"System", "List", "List", "None"}).Draw(t, "type") })
		maybe("defaultConstraints", func() any {
			var list []any
			for range rapid.IntRange(1, 2).Draw(t, "constraints") {
				c := tree{
					"maxSkew": rapid.IntRange(0, 2).Draw(t, "skew"), "topologyKey": rapid.SampledFrom([]string{"zone", "zone", "", "a b"}).Draw(t, "key"),
					"whenUnsatisfiable": rapid.SampledFrom([]string{"DoNotSchedule", "ScheduleAnyway", "", "Never"}).Draw(t, "action"),
				}
				if rarely(t, "selector") {
					c["labelSelector"] = tree{}
				}
				list = append(list, c)
			}
			return list
		})
	case "VolumeBinding":
		maybe("bindTimeoutSeconds", number(-1, 2))
		if rarely(t, "shaped") {
			args["shape"] = shape.Draw(t, "shape")
		}
	}
	if rarely(t, "unknown") {
		args["colour"] = "red"
	}
	return args
}

func drawProfile(t *rapid.T, name string) tree {
	points := tree{"multiPoint": drawSet(t, "multiPoint")}
	for _, point := range rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(pointsWith))), 0, 3, rapid.ID).Draw(t, "points") {
		points[point] = drawSet(t, point)
	}
	profile := tree{"plugins": points}
	if name != "" {
		profile["schedulerName"] = name
	}
	if rapid.Bool().Draw(t, "percentage") {
		profile["percentageOfNodesToScore"] = rapid.IntRange(-1, 101).Draw(t, "percent")
	}
	var configs []any
	for _, plugin := range rapid.SliceOfN(rapid.SampledFrom([]string{
		"DefaultPreemption", "InterPodAffinity", "NodeAffinity", "NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread",
		"VolumeBinding", "Coscheduling", "ImageLocality",
	}), 0, 2).Draw(t, "configured") {
		configs = append(configs, tree{"name": plugin, "args": drawArgs(t, plugin)})
	}
	if len(configs) > 0 {
		profile["pluginConfig"] = configs
	}
	return profile
}

var drawConfig = rapid.Custom(func(t *rapid.T) tree {
	cfg := tree{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	profiles := []any{drawProfile(t, rapid.SampledFrom([]string{"", "default-scheduler", "mine"}).Draw(t, "name"))}
	if rapid.IntRange(0, 2).Draw(t, "second") == 0 {
		profiles = append(profiles, drawProfile(t, rapid.SampledFrom([]string{"other", "other", "", "mine"}).Draw(t, "name")))
	}
	cfg["profiles"] = profiles
	for _, number := range []struct {
		field string
		upTo  int
	}{{"percentageOfNodesToScore", 101}, {"podInitialBackoffSeconds", 5}, {"podMaxBackoffSeconds", 20}, {"parallelism", 20}} {
		if rapid.IntRange(0, 3).Draw(t, number.field) == 0 {
			cfg[number.field] = rapid.IntRange(-1, number.upTo).Draw(t, "n")
		}
	}
	var extenders []any
	for range rapid.IntRange(0, 2).Draw(t, "extenders") {
		e := tree{"urlPrefix": "http://e", "filterVerb": "filter", "httpTimeout": "3s"}
		if rapid.Bool().Draw(t, "prioritizes") {
			e["prioritizeVerb"], e["weight"] = "prioritize", rapid.IntRange(-1, 3).Draw(t, "weight")
		}
		if rapid.Bool().Draw(t, "binds") {
			e["bindVerb"] = "bind"
		}
		if rapid.Bool().Draw(t, "manages") {
			e["managedResources"] = []any{tree{"name": rapid.SampledFrom([]string{"example.com/a", "example.com/b", "cpu", "kubernetes.io/a", "a b", "requests.x/a"}).Draw(t, "resource")}}
		}
		extenders = append(extenders, e)
	}
	if len(extenders) > 0 {
		cfg["extenders"] = extenders
	}
	if rarely(t, "unknown") {
		cfg["unknown"] = 1
	}
	if rarely(t, "version") {
		cfg["apiVersion"] = rapid.SampledFrom([]string{"kubescheduler.config.k8s.io/v1beta3", "v1", ""}).Draw(t, "other version")
	}
	return cfg
})

// plain returns a configuration with nothing but the names and plugins of its profiles. Most drawn ones are invalid as a
// whole, and many of these are valid.
func plain(cfg tree) tree {
	var profiles []any
	for _, each := range cfg["profiles"].([]any) {
		profile := maps.Clone(each.(tree))
		delete(profile, "pluginConfig")
		delete(profile, "percentageOfNodesToScore")
		profiles = append(profiles, profile)
	}
	return tree{"apiVersion": cfg["apiVersion"], "kind": cfg["kind"], "profiles": profiles}
}

func TestConfigurationsMeanTheSame(t *testing.T) {
	t.Parallel()
	metrics.Register() // the frameworks use them
	valid, invalid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig.Draw(t, "config")
		for _, each := range []tree{cfg, plain(cfg)} {
			text, err := yaml.Marshal(each)
			if err != nil {
				t.Fatal(err)
			}
			theirs := upstreams(text)
			if len(theirs.errs) == 0 {
				valid++
			} else {
				invalid++
			}
			if diff := differs(theirs, ours(text)); diff != "" {
				t.Fatalf("(-upstream +volsim):\n%s\n%s", diff, text)
			}
		}
	})
	if valid < 5 || invalid < 5 {
		t.Errorf("%d valid and %d invalid configurations were drawn", valid, invalid)
	}
}
