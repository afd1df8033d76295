package schedulerconfig

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// validate checks a configuration that has its defaults.
//
// Upstream: pkg/scheduler/apis/config/validation ValidateKubeSchedulerConfiguration (v1.36).
//
// Differs: clientConnection and leaderElection are not checked.
func validate(file *configv1.KubeSchedulerConfiguration, features Features) error {
	var errs []error
	add := func(err *field.Error) { errs = append(errs, err) }
	if *file.Parallelism <= 0 {
		add(field.Invalid(field.NewPath("parallelism"), *file.Parallelism, "should be an integer value greater than zero"))
	}
	profiles := field.NewPath("profiles")
	for i := range file.Profiles {
		errs = append(errs, validateProfile(profiles.Index(i), &file.Profiles[i], features)...)
		same := func(p configv1.KubeSchedulerProfile) bool { return nameOf(&p) == nameOf(&file.Profiles[i]) }
		for j := i - 1; j >= 0; j-- {
			if same(file.Profiles[j]) {
				add(field.Duplicate(profiles.Index(i).Child("schedulerName"), profiles.Index(j).Child("schedulerName")))
				break
			}
		}
	}
	errs = append(errs, validateQueueSort(profiles, file.Profiles)...)
	errs = append(errs, validatePercentage(field.NewPath("percentageOfNodesToScore"), file.PercentageOfNodesToScore)...)
	if *file.PodInitialBackoffSeconds <= 0 {
		add(field.Invalid(field.NewPath("podInitialBackoffSeconds"), *file.PodInitialBackoffSeconds, "must be greater than 0"))
	}
	if *file.PodMaxBackoffSeconds < *file.PodInitialBackoffSeconds {
		add(field.Invalid(field.NewPath("podMaxBackoffSeconds"), *file.PodMaxBackoffSeconds,
			"must be greater than or equal to PodInitialBackoffSeconds"))
	}
	errs = append(errs, validateExtenders(field.NewPath("extenders"), file.Extenders)...)
	if all := utilerrors.NewAggregate(errs); all != nil {
		return utilerrors.Flatten(all)
	}
	return nil
}

func nameOf(p *configv1.KubeSchedulerProfile) string {
	if p.SchedulerName == nil {
		return ""
	}
	return *p.SchedulerName
}

func validatePercentage(path *field.Path, percentage *int32) []error {
	if percentage != nil && (*percentage < 0 || *percentage > 100) {
		return []error{field.Invalid(path, *percentage, "not in valid range [0-100]")}
	}
	return nil
}

func validateProfile(path *field.Path, p *configv1.KubeSchedulerProfile, features Features) []error {
	var errs []error
	if nameOf(p) == "" {
		errs = append(errs, field.Required(path.Child("schedulerName"), ""))
	}
	errs = append(errs, validatePercentage(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)...)
	for _, s := range pointSets(p.Plugins) {
		at := path.Child("plugins", strings.ToLower(string(s.point[:1]))+string(s.point[1:]), "enabled")
		for i, plugin := range s.set.Enabled {
			if isRemoved(plugin.Name) {
				errs = append(errs, removed(at.Index(i), plugin.Name))
			}
		}
	}
	for i := range p.PluginConfig {
		at, cfg := path.Child("pluginConfig").Index(i), &p.PluginConfig[i]
		if slices.ContainsFunc(p.PluginConfig[:i], func(c configv1.PluginConfig) bool { return c.Name == cfg.Name }) {
			errs = append(errs, field.Duplicate(at, cfg.Name))
		}
		if isRemoved(cfg.Name) {
			errs = append(errs, removed(at, cfg.Name))
		} else {
			errs = append(errs, validateArgs(at.Child("args"), cfg.Args.Object, features)...)
		}
	}
	return errs
}

// isRemoved reports whether a plugin existed in earlier versions.
//
// Upstream: pkg/scheduler/apis/config/validation invalidPluginsByVersion (v1.36).
func isRemoved(plugin string) bool {
	return slices.Contains([]string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}, plugin)
}

func removed(path *field.Path, plugin string) error {
	return field.Invalid(path, plugin, fmt.Sprintf("was invalid in version %q (KubeSchedulerConfiguration is version %q)",
		corev1.SchemeGroupVersion, configv1.SchemeGroupVersion)) // upstream names the version of the core API
}

// validateQueueSort checks that all profiles sort the queue in the same way: there is one queue.
//
// Upstream: pkg/scheduler/apis/config/validation validateCommonQueueSort (v1.36).
func validateQueueSort(path *field.Path, profiles []configv1.KubeSchedulerProfile) []error {
	var errs []error
	first := profiles[0].Plugins.QueueSort
	if n := len(first.Enabled); n > 1 {
		errs = append(errs, field.Invalid(path.Index(0).Child("plugins", "queueSort", "Enabled"), n, "only one queue sort plugin can be enabled"))
	}
	for i := 1; i < len(profiles); i++ {
		if other := profiles[i].Plugins.QueueSort; !equality.Semantic.DeepEqual(first, other) {
			errs = append(errs, field.Invalid(path.Index(i).Child("plugins", "queueSort"), other, "must be the same for all profiles"))
		}
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation validateExtenders (v1.36).
func validateExtenders(path *field.Path, extenders []configv1.Extender) []error {
	var errs []error
	binders, managed := 0, map[string]bool{}
	for i := range extenders {
		e, at := &extenders[i], path.Index(i)
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			errs = append(errs, field.Invalid(at.Child("weight"), e.Weight, "must have a positive weight applied to it"))
		}
		if e.BindVerb != "" {
			binders++
		}
		for j, r := range e.ManagedResources {
			name := at.Child("managedResources").Index(j).Child("name")
			errs = append(errs, validateExtendedResource(name, r.Name)...)
			if managed[r.Name] {
				errs = append(errs, field.Invalid(name, r.Name, "duplicate extender managed resource name"))
			}
			managed[r.Name] = true
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
	return errs
}

func validateExtendedResource(path *field.Path, name string) []error {
	var errs []error
	for _, message := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, corev1.ResourceName(name), message))
	}
	if len(errs) == 0 && !isExtended(name) {
		errs = append(errs, field.Invalid(path, name, "is an invalid extended resource name"))
	}
	return errs
}

// isExtended reports whether a resource is not one of Kubernetes, and can be limited by a quota.
//
// Upstream: pkg/apis/core/v1/helper IsExtendedResourceName (v1.36).
func isExtended(name string) bool {
	native := !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
	return !native && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}
