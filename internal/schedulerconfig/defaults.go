package schedulerconfig

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

// ShapeScoreMax is the highest score of a point of a shape.
//
// Upstream: pkg/scheduler/apis/config MaxCustomPriorityScore (v1.36).
const ShapeScoreMax = 10

// setDefaults sets what a configuration leaves open.
//
// Upstream: pkg/scheduler/apis/config/v1 SetDefaults_KubeSchedulerConfiguration (v1.36).
func setDefaults(file *configv1.KubeSchedulerConfiguration, features Features) {
	if len(file.Profiles) == 0 {
		file.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if len(file.Profiles) == 1 {
		setDefault(&file.Profiles[0].SchedulerName, corev1.DefaultSchedulerName)
	}
	for i := range file.Profiles {
		setProfileDefaults(&file.Profiles[i], features)
	}
	setDefault(&file.Parallelism, 16)
	setDefault(&file.PercentageOfNodesToScore, 0)
	setDefault(&file.PodInitialBackoffSeconds, 1)
	setDefault(&file.PodMaxBackoffSeconds, 10)
}

func setDefault[T any](at **T, value T) {
	if *at == nil {
		*at = ptr.To(value)
	}
}

// setProfileDefaults adds the default plugins, and arguments of all enabled ones.
func setProfileDefaults(p *configv1.KubeSchedulerProfile, features Features) {
	p.Plugins = withDefaultPlugins(p.Plugins)
	configured := map[string]bool{}
	for i := range p.PluginConfig {
		configured[p.PluginConfig[i].Name] = true
		setArgsDefaults(p.PluginConfig[i].Args.Object, features)
	}
	for _, name := range slices.Sorted(maps.Keys(enabledAnywhere(p.Plugins))) {
		if args := newArgs(name); args != nil && !configured[name] {
			setArgsDefaults(args, features)
			p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Object: args}})
		}
	}
}

// newArgs returns empty arguments of a plugin, nil if it has none.
func newArgs(plugin string) runtime.Object {
	switch plugin {
	case "DefaultPreemption":
		return &configv1.DefaultPreemptionArgs{}
	case "InterPodAffinity":
		return &configv1.InterPodAffinityArgs{}
	case "NodeAffinity":
		return &configv1.NodeAffinityArgs{}
	case "NodeResourcesBalancedAllocation":
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	case "NodeResourcesFit":
		return &configv1.NodeResourcesFitArgs{}
	case "PodTopologySpread":
		return &configv1.PodTopologySpreadArgs{}
	case "VolumeBinding":
		return &configv1.VolumeBindingArgs{}
	default:
		return nil
	}
}

func setArgsDefaults(args runtime.Object, features Features) {
	switch a := args.(type) {
	case *configv1.DefaultPreemptionArgs:
		setDefault(&a.MinCandidateNodesPercentage, 10)
		setDefault(&a.MinCandidateNodesAbsolute, 100)
	case *configv1.InterPodAffinityArgs:
		setDefault(&a.HardPodAffinityWeight, 1)
	case *configv1.VolumeBindingArgs:
		setDefault(&a.BindTimeoutSeconds, 600)
		if len(a.Shape) == 0 && features.StorageCapacityScoring {
			a.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: ShapeScoreMax}, {Utilization: 100, Score: 0}}
		}
	case *configv1.NodeResourcesBalancedAllocationArgs:
		a.Resources = weighted(a.Resources)
	case *configv1.PodTopologySpreadArgs:
		if a.DefaultingType == "" {
			a.DefaultingType = configv1.SystemDefaulting
		}
	case *configv1.NodeResourcesFitArgs:
		if a.ScoringStrategy == nil {
			a.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
		}
		a.ScoringStrategy.Resources = weighted(a.ScoringStrategy.Resources)
	}
}

// weighted returns resources with weights of at least 1; cpu and memory if there are none.
func weighted(resources []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(resources) == 0 {
		return []configv1.ResourceSpec{{Name: string(corev1.ResourceCPU), Weight: 1}, {Name: string(corev1.ResourceMemory), Weight: 1}}
	}
	for i := range resources {
		if resources[i].Weight == 0 {
			resources[i].Weight = 1
		}
	}
	return resources
}
