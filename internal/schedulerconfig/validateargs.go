package schedulerconfig

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// CompleteArgs sets the defaults of a plugin's arguments, and checks them as the plugin does: without their
// path in a file.
//
// Upstream: pkg/scheduler/framework/plugins NewFit, New (v1.36).
func CompleteArgs(args runtime.Object) error {
	setArgsDefaults(args, Features{})
	return utilerrors.NewAggregate(validateArgs(nil, args, Features{}))
}

// validateArgs checks the arguments of a plugin, with their defaults.
//
// Upstream: pkg/scheduler/apis/config/validation validatePluginConfig (v1.36).
func validateArgs(path *field.Path, args runtime.Object, features Features) []error {
	switch a := args.(type) {
	case *configv1.DefaultPreemptionArgs:
		return errorsOf(validatePreemption(path, a))
	case *configv1.InterPodAffinityArgs:
		return errorsOf(inRange(path.Child("hardPodAffinityWeight"), *a.HardPodAffinityWeight, 100))
	case *configv1.NodeAffinityArgs:
		return validateNodeAffinity(path.Child("addedAffinity"), a.AddedAffinity)
	case *configv1.NodeResourcesBalancedAllocationArgs:
		return errorsOf(validateBalance(path.Child("resources"), a.Resources))
	case *configv1.NodeResourcesFitArgs:
		return errorsOf(validateFit(path, a))
	case *configv1.PodTopologySpreadArgs:
		return errorsOf(validateSpread(path, a))
	case *configv1.VolumeBindingArgs:
		return errorsOf(validateVolumeBinding(path, a, features))
	default:
		return nil
	}
}

func errorsOf(list field.ErrorList) []error {
	errs := make([]error, len(list))
	for i, err := range list {
		errs[i] = err
	}
	return errs
}

// inRange checks that a number is not negative and at most a maximum.
func inRange[T int32 | int64](path *field.Path, n, maximum T) field.ErrorList {
	if n < 0 || n > maximum {
		return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("not in valid range [0, %d]", maximum))}
	}
	return nil
}

// Upstream: pkg/scheduler/apis/config/validation ValidateDefaultPreemptionArgs (v1.36).
func validatePreemption(path *field.Path, a *configv1.DefaultPreemptionArgs) field.ErrorList {
	percentage, absolute := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	errs := inRange(percentage, *a.MinCandidateNodesPercentage, 100)
	if *a.MinCandidateNodesAbsolute < 0 {
		errs = append(errs, field.Invalid(absolute, *a.MinCandidateNodesAbsolute, "not in valid range [0, inf)"))
	}
	if *a.MinCandidateNodesPercentage == 0 && *a.MinCandidateNodesAbsolute == 0 {
		errs = append(errs,
			field.Invalid(percentage, *a.MinCandidateNodesPercentage, "cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(absolute, *a.MinCandidateNodesAbsolute, "cannot be zero at the same time as minCandidateNodesPercentage"))
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation ValidateNodeAffinityArgs (v1.36).
func validateNodeAffinity(path *field.Path, added *corev1.NodeAffinity) []error {
	var errs []error
	if added == nil {
		return nil
	}
	if required := added.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		if _, err := nodeaffinity.NewNodeSelector(required, field.WithPath(path.Child("requiredDuringSchedulingIgnoredDuringExecution"))); err != nil {
			errs = append(errs, err)
		}
	}
	if preferred := added.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
		_, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(path.Child("preferredDuringSchedulingIgnoredDuringExecution")))
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation ValidateNodeResourcesBalancedAllocationArgs (v1.36).
func validateBalance(path *field.Path, resources []configv1.ResourceSpec) field.ErrorList {
	var errs field.ErrorList
	for i, r := range resources {
		if slices.ContainsFunc(resources[:i], func(other configv1.ResourceSpec) bool { return other.Name == r.Name }) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), r.Name))
		}
		if r.Weight != 1 {
			errs = append(errs, field.Invalid(path.Index(i).Child("weight"), r.Weight, "must be 1"))
		}
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation ValidateNodeResourcesFitArgs (v1.36), which the plugin calls
// itself, without the path of the arguments.
func validateFit(path *field.Path, a *configv1.NodeResourcesFitArgs) field.ErrorList {
	var errs field.ErrorList
	for i, name := range a.IgnoredResources {
		errs = append(errs, metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range a.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(at, group, "resource group name can't contain '/'"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(group, at)...)
	}
	strategy, at := a.ScoringStrategy, path.Child("scoringStrategy")
	types := []configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio}
	if !slices.Contains(types, strategy.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), strategy.Type, types))
	}
	for i, r := range strategy.Resources {
		if r.Weight <= 0 || r.Weight > 100 {
			errs = append(errs, field.Invalid(at.Child("resources").Index(i).Child("weight"), r.Weight,
				fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	ratio := strategy.RequestedToCapacityRatio
	switch at := at.Child("requestedToCapacityRatio"); {
	case strategy.Type == configv1.RequestedToCapacityRatio && ratio == nil:
		errs = append(errs, field.Required(at, "must be specified when type is RequestedToCapacityRatio"))
	case strategy.Type == configv1.RequestedToCapacityRatio:
		errs = append(errs, validateShape(at.Child("shape"), ratio.Shape)...)
	case ratio != nil:
		errs = append(errs, field.Forbidden(at, "must be nil when type is not RequestedToCapacityRatio"))
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation validateFunctionShape (v1.36).
func validateShape(path *field.Path, shape []configv1.UtilizationShapePoint) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i := 1; i < len(shape); i++ {
		if shape[i-1].Utilization >= shape[i].Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, point := range shape {
		errs = append(errs, inRange(path.Index(i).Child("utilization"), point.Utilization, 100)...)
		errs = append(errs, inRange(path.Index(i).Child("score"), point.Score, ShapeScoreMax)...)
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation ValidatePodTopologySpreadArgs (v1.36).
func validateSpread(path *field.Path, a *configv1.PodTopologySpreadArgs) field.ErrorList {
	var errs field.ErrorList
	defaulting, list := path.Child("defaultingType"), path.Child("defaultConstraints")
	types := []configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}
	switch {
	case !slices.Contains(types, a.DefaultingType):
		errs = append(errs, field.NotSupported(defaulting, a.DefaultingType, types))
	case a.DefaultingType == configv1.SystemDefaulting && len(a.DefaultConstraints) > 0:
		errs = append(errs, field.Invalid(defaulting, a.DefaultingType, "when .defaultConstraints are not empty"))
	}
	for i := range a.DefaultConstraints {
		c, at := &a.DefaultConstraints[i], list.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		} else {
			errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
		}
		actions := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
		if c.WhenUnsatisfiable == "" {
			errs = append(errs, field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
		} else if !slices.Contains(actions, c.WhenUnsatisfiable) {
			errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, actions))
		}
		if c.LabelSelector != nil {
			errs = append(errs, field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
		}
		if slices.ContainsFunc(a.DefaultConstraints[:i], func(other corev1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
	}
	return errs
}

// Upstream: pkg/scheduler/apis/config/validation ValidateVolumeBindingArgsWithOptions (v1.36).
func validateVolumeBinding(path *field.Path, a *configv1.VolumeBindingArgs, features Features) field.ErrorList {
	var errs field.ErrorList
	if *a.BindTimeoutSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *a.BindTimeoutSeconds,
			"invalid BindTimeoutSeconds, should not be a negative value"))
	}
	if features.StorageCapacityScoring {
		return append(errs, validateShape(path.Child("shape"), a.Shape)...)
	}
	if a.Shape != nil {
		errs = append(errs, field.Invalid(path.Child("shape"), a.Shape,
			"unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"))
	}
	return errs
}
