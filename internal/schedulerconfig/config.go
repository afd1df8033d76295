package schedulerconfig

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// A Config is what a scheduler is configured to do.
type Config struct {
	Profiles          []Profile // at least one
	Extenders         []configv1.Extender
	PodInitialBackoff time.Duration
	PodMaxBackoff     time.Duration
}

// A Profile is how pods with one schedulerName are scheduled.
type Profile struct {
	SchedulerName            string
	PercentageOfNodesToScore int                // 0: fewer the more nodes there are
	Plugins                  map[Point][]Plugin // that act at a point, in their order

	// Arguments of plugins, with defaults.
	DefaultPreemption               configv1.DefaultPreemptionArgs
	InterPodAffinity                configv1.InterPodAffinityArgs
	NodeAffinity                    configv1.NodeAffinityArgs
	NodeResourcesBalancedAllocation configv1.NodeResourcesBalancedAllocationArgs
	// NodeResourcesFit ignores also the resources that extenders manage and the scheduler must ignore.
	NodeResourcesFit  configv1.NodeResourcesFitArgs
	PodTopologySpread configv1.PodTopologySpreadArgs
	VolumeBinding     configv1.VolumeBindingArgs
}

// Features are upstream's feature gates that change what a configuration means.
type Features struct {
	StorageCapacityScoring bool // off in 1.36
}

// Parse reads a configuration in YAML or JSON. Unknown and repeated fields are errors.
//
// Upstream: cmd/kube-scheduler/app/options loadConfig (v1.36).
func Parse(data []byte) (*configv1.KubeSchedulerConfiguration, error) {
	obj, gvk, err := newCodecs().UniversalDeserializer().Decode(data, nil, nil)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, err
	}
	cfg, ok := obj.(*configv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	argsErr := decodeArgs(cfg)
	ofArgs, argsAreStrict := runtime.AsStrictDecodingError(argsErr)
	switch {
	case isStrict && argsAreStrict:
		return nil, runtime.NewStrictDecodingError(append(strict.Errors(), ofArgs.Errors()...))
	case argsErr != nil:
		return nil, argsErr
	case err != nil:
		return nil, err
	}
	return cfg, nil
}

func newCodecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		panic(fmt.Sprintf("schedulerconfig: add types to a scheme: %v", err)) // they are always the same
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}

// decodeArgs decodes the arguments of plugins.
func decodeArgs(cfg *configv1.KubeSchedulerConfiguration) error {
	return cfg.DecodeNestedObjects(runtime.WithoutVersionDecoder{Decoder: newCodecs().UniversalDeserializer()})
}

// New returns what a configuration means; nil is upstream's default. It does not change file.
//
// Upstream: pkg/scheduler New, pkg/scheduler/profile NewMap (v1.36).
func New(file *configv1.KubeSchedulerConfiguration, features Features) (*Config, error) {
	if file == nil {
		file = &configv1.KubeSchedulerConfiguration{}
	}
	file = file.DeepCopy()
	if err := decodeUndecoded(file); err != nil {
		return nil, err
	}
	setDefaults(file, features)
	if err := validate(file, features); err != nil {
		return nil, err
	}
	cfg := &Config{
		Extenders:         file.Extenders,
		PodInitialBackoff: time.Duration(*file.PodInitialBackoffSeconds) * time.Second,
		PodMaxBackoff:     time.Duration(*file.PodMaxBackoffSeconds) * time.Second,
	}
	if err := ignoreManagedResources(file); err != nil {
		return nil, fmt.Errorf("couldn't build extenders: %w", err)
	}
	for i := range file.Profiles {
		profile, err := newProfile(file, &file.Profiles[i])
		if err != nil {
			return nil, fmt.Errorf("initializing profiles: creating profile for scheduler name %s: %w", *file.Profiles[i].SchedulerName, err)
		}
		cfg.Profiles = append(cfg.Profiles, *profile)
	}
	return cfg, nil
}

// decodeUndecoded decodes the arguments of a configuration that was not made by Parse.
func decodeUndecoded(file *configv1.KubeSchedulerConfiguration) error {
	for i := range file.Profiles {
		for j := range file.Profiles[i].PluginConfig {
			if args := &file.Profiles[i].PluginConfig[j].Args; args.Object == nil {
				return decodeArgs(file)
			}
		}
	}
	return nil
}

func newProfile(file *configv1.KubeSchedulerConfiguration, from *configv1.KubeSchedulerProfile) (*Profile, error) {
	p := &Profile{SchedulerName: *from.SchedulerName, PercentageOfNodesToScore: int(*file.PercentageOfNodesToScore)}
	if from.PercentageOfNodesToScore != nil {
		p.PercentageOfNodesToScore = int(*from.PercentageOfNodesToScore)
	}
	var err error
	if p.Plugins, err = expand(from.Plugins, p.SchedulerName); err != nil {
		return nil, err
	}
	for i := range from.PluginConfig {
		if err := p.setArgs(&from.PluginConfig[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// setArgs takes the arguments of a plugin. Those of plugins that do not exist have no effect.
func (p *Profile) setArgs(from *configv1.PluginConfig) error {
	switch args := from.Args.Object.(type) {
	case *configv1.DefaultPreemptionArgs:
		p.DefaultPreemption = *args
	case *configv1.InterPodAffinityArgs:
		p.InterPodAffinity = *args
	case *configv1.NodeAffinityArgs:
		p.NodeAffinity = *args
	case *configv1.NodeResourcesBalancedAllocationArgs:
		p.NodeResourcesBalancedAllocation = *args
	case *configv1.NodeResourcesFitArgs:
		p.NodeResourcesFit = *args
	case *configv1.PodTopologySpreadArgs:
		p.PodTopologySpread = *args
	case *configv1.VolumeBindingArgs:
		p.VolumeBinding = *args
	case *configv1.DynamicResourcesArgs:
		return unsupported(from.Name)
	}
	return nil
}

// ignoreManagedResources makes NodeResourcesFit ignore the resources that extenders say it must ignore.
//
// Upstream: pkg/scheduler buildExtenders (v1.36).
func ignoreManagedResources(file *configv1.KubeSchedulerConfiguration) error {
	var ignored []string
	for i := range file.Extenders {
		for _, r := range file.Extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
	}
	if len(ignored) == 0 {
		return nil
	}
	for i := range file.Profiles {
		args := argsOf[*configv1.NodeResourcesFitArgs](&file.Profiles[i])
		if args == nil {
			return errors.New("can't find NodeResourcesFitArgs in plugin config")
		}
		args.IgnoredResources = ignored
	}
	return nil
}

// argsOf returns the arguments of a type, or nil.
func argsOf[T runtime.Object](p *configv1.KubeSchedulerProfile) (none T) {
	for i := range p.PluginConfig {
		if args, ok := p.PluginConfig[i].Args.Object.(T); ok {
			return args
		}
	}
	return none
}

// Profile returns the profile of a pod, nil if it is not of this scheduler.
func (c *Config) Profile(pod *corev1.Pod) *Profile {
	for i := range c.Profiles {
		if c.Profiles[i].SchedulerName == pod.Spec.SchedulerName {
			return &c.Profiles[i]
		}
	}
	return nil
}
