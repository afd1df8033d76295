package schedulerconfig_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/internal/testcheck"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func read(text string, features schedulerconfig.Features) (*schedulerconfig.Config, error) {
	file, err := schedulerconfig.Parse([]byte(header + text))
	if err != nil {
		return nil, err
	}
	return schedulerconfig.New(file, features)
}

func pluginsText(plugins []schedulerconfig.Plugin) string {
	var words []string
	for _, p := range plugins {
		words = append(words, strings.TrimSuffix(fmt.Sprintf("%s:%d", p.Name, p.Weight), ":0"))
	}
	return strings.Join(words, " ")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg := testcheck.Must(schedulerconfig.New(nil, schedulerconfig.Features{}))
	if len(cfg.Profiles) != 1 || cfg.PodInitialBackoff != time.Second || cfg.PodMaxBackoff != 10*time.Second || cfg.Extenders != nil {
		t.Fatalf("got %+v", cfg)
	}
	p := cfg.Profiles[0]
	want := map[schedulerconfig.Point]string{
		schedulerconfig.PreEnqueue: "SchedulingGates DefaultPreemption",
		schedulerconfig.QueueSort:  "PrioritySort",
		schedulerconfig.PreFilter: "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone " +
			"PodTopologySpread InterPodAffinity",
		schedulerconfig.Filter: "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions " +
			"NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity",
		schedulerconfig.PostFilter: "DefaultPreemption",
		schedulerconfig.PreScore: "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity " +
			"NodeResourcesBalancedAllocation",
		schedulerconfig.Score: "TaintToleration:3 NodeAffinity:2 NodeResourcesFit:1 VolumeBinding:1 PodTopologySpread:2 InterPodAffinity:2 " +
			"NodeResourcesBalancedAllocation:1 ImageLocality:1",
		schedulerconfig.Reserve: "VolumeBinding",
		schedulerconfig.PreBind: "VolumeBinding",
		schedulerconfig.Bind:    "DefaultBinder",
	}
	got := map[schedulerconfig.Point]string{}
	for point, plugins := range p.Plugins {
		got[point] = pluginsText(plugins)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if p.SchedulerName != "default-scheduler" || p.PercentageOfNodesToScore != 0 || *p.VolumeBinding.BindTimeoutSeconds != 600 ||
		p.VolumeBinding.Shape != nil || *p.InterPodAffinity.HardPodAffinityWeight != 1 || *p.DefaultPreemption.MinCandidateNodesPercentage != 10 ||
		*p.DefaultPreemption.MinCandidateNodesAbsolute != 100 || p.PodTopologySpread.DefaultingType != configv1.SystemDefaulting ||
		p.NodeResourcesFit.ScoringStrategy.Type != configv1.LeastAllocated || len(p.NodeResourcesFit.ScoringStrategy.Resources) != 2 {
		t.Errorf("got %+v", p)
	}
	if cfg.Profile(&corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}}) == nil || cfg.Profile(&corev1.Pod{}) != nil {
		t.Error("the pods of the profile are not those with its name")
	}
	scoring := testcheck.Must(schedulerconfig.New(nil, schedulerconfig.Features{StorageCapacityScoring: true}))
	if got := scoring.Profiles[0].VolumeBinding.Shape; len(got) != 2 || got[0].Score != 10 || got[1].Utilization != 100 {
		t.Errorf("shape %+v", got)
	}
}

// everything has all supported fields, and those without a meaning here.
const everything = `
parallelism: 4
leaderElection: {leaderElect: true}
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf, qps: 5}
enableProfiling: false
delayCacheUntilActive: true
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
extenders:
- urlPrefix: https://extender.example/v1
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  preemptVerb: preempt
  weight: 7
  enableHTTPS: true
  tlsConfig: {serverName: x, caFile: /ca.crt}
  httpTimeout: 500ms
  nodeCacheCapable: true
  ignorable: true
  managedResources:
  - {name: example.com/disks, ignoredByScheduler: true}
  - {name: example.com/others}
profiles:
- schedulerName: first
  percentageOfNodesToScore: 40
  pluginConfig:
  - name: VolumeBinding
    args: {bindTimeoutSeconds: 30}
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/mine], scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 5}]}}
  - name: Coscheduling
    args: {anything: 1}
- schedulerName: second
  plugins:
    multiPoint: {disabled: [{name: NodeAffinity}]}
    score: {disabled: [{name: "*"}], enabled: [{name: VolumeBinding, weight: 9}, {name: ImageLocality}]}
    filter: {enabled: [{name: VolumeBinding}], disabled: [{name: NodePorts}, {name: DynamicResources}]}
`

func TestEverything(t *testing.T) {
	t.Parallel()
	cfg := testcheck.Must(read(everything, schedulerconfig.Features{}))
	first, second := cfg.Profiles[0], cfg.Profiles[1]
	if first.PercentageOfNodesToScore != 40 || second.PercentageOfNodesToScore != 30 || cfg.PodInitialBackoff != 2*time.Second || cfg.PodMaxBackoff != 20*time.Second {
		t.Errorf("got %+v", cfg)
	}
	if *first.VolumeBinding.BindTimeoutSeconds != 30 || *second.VolumeBinding.BindTimeoutSeconds != 600 {
		t.Error("bindTimeoutSeconds differ")
	}
	if fit := first.NodeResourcesFit; fit.ScoringStrategy.Type != configv1.MostAllocated || fit.ScoringStrategy.Resources[0].Weight != 5 {
		t.Errorf("got %+v", fit)
	}
	for _, p := range cfg.Profiles { // those of extenders replace those of the profile
		if diff := cmp.Diff([]string{"example.com/disks"}, p.NodeResourcesFit.IgnoredResources); diff != "" {
			t.Errorf("ignored resources (-want +got):\n%s", diff)
		}
	}
	if e := cfg.Extenders[0]; e.HTTPTimeout.Duration != 500*time.Millisecond || e.Weight != 7 || !e.NodeCacheCapable || e.TLSConfig.CAFile != "/ca.crt" {
		t.Errorf("got %+v", e)
	}
	for point, want := range map[schedulerconfig.Point]string{
		schedulerconfig.Score: "VolumeBinding:9 ImageLocality:1",
		schedulerconfig.Filter: "VolumeBinding NodeUnschedulable NodeName TaintToleration NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeZone " +
			"PodTopologySpread InterPodAffinity",
		schedulerconfig.PreBind: "VolumeBinding",
	} {
		if got := pluginsText(second.Plugins[point]); got != want {
			t.Errorf("%s: got %q, want %q", point, got, want)
		}
	}
}

// TestNewDoesNotChangeTheFile checks that a configuration in Go, whose arguments are not decoded, stays as it is.
func TestNewDoesNotChangeTheFile(t *testing.T) {
	t.Parallel()
	file := &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{PluginConfig: []configv1.PluginConfig{{Name: "VolumeBinding"}}}}}
	file.Profiles[0].PluginConfig[0].Args.Raw = []byte(`{"bindTimeoutSeconds": 7}`)
	before := file.DeepCopy()
	for range 2 {
		cfg := testcheck.Must(schedulerconfig.New(file, schedulerconfig.Features{}))
		if got := *cfg.Profiles[0].VolumeBinding.BindTimeoutSeconds; got != 7 {
			t.Errorf("bindTimeoutSeconds %d", got)
		}
	}
	if diff := cmp.Diff(before, file); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const initializing = "initializing profiles: creating profile for scheduler name default-scheduler: "
	scoring := schedulerconfig.Features{StorageCapacityScoring: true}
	tests := []struct {
		name, text string
		features   schedulerconfig.Features
		want       string
	}{
		{"unknown field", "colour: red", schedulerconfig.Features{}, `strict decoding error: unknown field "colour"`},
		{
			"repeated field", "parallelism: 1\nparallelism: 2",
			schedulerconfig.Features{},
			`strict decoding error: yaml: unmarshal errors:… key "parallelism" already set in map`,
		},
		{"no YAML", "\tx", schedulerconfig.Features{}, "yaml: …"},
		{
			"unknown argument", "profiles: [{pluginConfig: [{name: VolumeBinding, args: {colour: red}}]}]",
			schedulerconfig.Features{},
			`strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin VolumeBinding: …`,
		},
		{
			"a plugin from elsewhere", "profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}}]",
			schedulerconfig.Features{},
			initializing + `PreFilterPlugin "Coscheduling" does not exist`,
		},
		{
			"a plugin of upstream's", "profiles: [{plugins: {filter: {enabled: [{name: DynamicResources}]}}}]",
			schedulerconfig.Features{},
			initializing + `plugin "DynamicResources" is not supported: the scheduler has no dynamic resource allocation; remove it`,
		},
		{
			"arguments of such a plugin", "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 1s}}]}]",
			schedulerconfig.Features{},
			initializing + `plugin "DynamicResources" is not supported: the scheduler has no dynamic resource allocation; remove it`,
		},
		{
			"a plugin at a wrong point", "profiles: [{plugins: {score: {enabled: [{name: NodePorts}]}}}]",
			schedulerconfig.Features{},
			initializing + `plugin "NodePorts" does not extend ScorePlugin plugin`,
		},
		{
			"a plugin at Permit", "profiles: [{plugins: {permit: {enabled: [{name: VolumeBinding}]}}}]",
			schedulerconfig.Features{},
			initializing + `plugin "VolumeBinding" does not extend PermitPlugin plugin`,
		},
		{
			"a plugin twice", "profiles: [{plugins: {score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}}]",
			schedulerconfig.Features{},
			initializing + `plugin "ImageLocality" already registered as "ScorePlugin"`,
		},
		{
			"no binder", "profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]",
			schedulerconfig.Features{},
			initializing + `at least one bind plugin is needed for profile with scheduler name "default-scheduler"`,
		},
		{
			"no order", `profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}]}}}]`,
			schedulerconfig.Features{},
			initializing + `only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0`,
		},
		{
			"a removed plugin", "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
			schedulerconfig.Features{},
			`profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")`,
		},
		{
			"names of two profiles", "profiles: [{}, {}]",
			schedulerconfig.Features{},
			`[profiles[0].schedulerName: Required value, profiles[1].schedulerName: Required value, profiles[1].schedulerName: Duplicate value: …]`,
		},
		{
			"a shape", "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}]}}]}]",
			schedulerconfig.Features{},
			"profiles[0].pluginConfig[0].args.shape: Invalid value: …: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
		},
		{
			"a bad shape", "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 11}]}}]}]", scoring,
			"profiles[0].pluginConfig[0].args.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
		},
		{
			"two binders", "extenders: [{urlPrefix: a, bindVerb: b}, {urlPrefix: b, bindVerb: b}]",
			schedulerconfig.Features{},
			`extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`,
		},
		{
			"a managed resource of Kubernetes", "extenders: [{urlPrefix: a, managedResources: [{name: cpu}]}]",
			schedulerconfig.Features{},
			`extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name`,
		},
		{
			"no arguments to ignore resources", "extenders: [{urlPrefix: a, managedResources: [{name: x.y/a, ignoredByScheduler: true}]}]\n" +
				"profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]",
			schedulerconfig.Features{},
			"couldn't build extenders: can't find NodeResourcesFitArgs in plugin config",
		},
		{
			"a strategy", "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Best}}}]}]",
			schedulerconfig.Features{},
			`profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(tt.text, tt.features)
			if err == nil {
				t.Fatal("no error")
			}
			before, after, wild := strings.Cut(tt.want, "…")
			got := err.Error()
			if got != tt.want && !(wild && strings.HasPrefix(got, before) && strings.HasSuffix(got, after)) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestOtherKinds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "apiVersion: v1\nkind: ConfigMap\n", "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: VolumeBindingArgs\n",
	} {
		if cfg, err := schedulerconfig.Parse([]byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, cfg)
		}
	}
}
