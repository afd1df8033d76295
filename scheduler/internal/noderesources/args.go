package noderesources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FitArgs configure Fit.
//
// Upstream: NodeResourcesFitArgs of kubescheduler.config.k8s.io/v1.
type FitArgs struct {
	// IgnoredResources and IgnoredResourceGroups are extended resources that Filter does not check.
	IgnoredResources      []string         `json:"ignoredResources,omitempty"`
	IgnoredResourceGroups []string         `json:"ignoredResourceGroups,omitempty"`
	ScoringStrategy       *ScoringStrategy `json:"scoringStrategy,omitempty"`
}

// ScoringStrategy is how Fit ranks nodes.
type ScoringStrategy struct {
	Type                     ScoringStrategyType            `json:"type,omitempty"`
	Resources                []ResourceSpec                 `json:"resources,omitempty"`
	RequestedToCapacityRatio *RequestedToCapacityRatioParam `json:"requestedToCapacityRatio,omitempty"`
}

// ScoringStrategyType is one of the strategies.
type ScoringStrategyType string

// The strategies.
const (
	LeastAllocated           ScoringStrategyType = "LeastAllocated"
	MostAllocated            ScoringStrategyType = "MostAllocated"
	RequestedToCapacityRatio ScoringStrategyType = "RequestedToCapacityRatio"
)

// ResourceSpec is a resource that counts, and how much.
type ResourceSpec struct {
	Name   corev1.ResourceName `json:"name"`
	Weight int64               `json:"weight,omitempty"`
}

// RequestedToCapacityRatioParam is the function of the strategy.
type RequestedToCapacityRatioParam struct {
	Shape []UtilizationShapePoint `json:"shape,omitempty"`
}

// UtilizationShapePoint is a point of the function: the score, from 0 to 10, of a percentage in use.
type UtilizationShapePoint struct {
	Utilization int32 `json:"utilization"`
	Score       int32 `json:"score"`
}

const utilizationMax, scoreMax = 100, 10

// BalancedAllocationArgs configure BalancedAllocation.
//
// Upstream: NodeResourcesBalancedAllocationArgs of kubescheduler.config.k8s.io/v1.
type BalancedAllocationArgs struct {
	Resources []ResourceSpec `json:"resources,omitempty"`
}

func (a *FitArgs) setDefaults() {
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &ScoringStrategy{Type: LeastAllocated}
	}
	strategy := *a.ScoringStrategy
	strategy.Resources = withDefaults(strategy.Resources)
	a.ScoringStrategy = &strategy
}

func (a *BalancedAllocationArgs) setDefaults() { a.Resources = withDefaults(a.Resources) }

// withDefaults returns cpu and memory for no resources, and the weight 1 for none.
func withDefaults(resources []ResourceSpec) []ResourceSpec {
	if len(resources) == 0 {
		return []ResourceSpec{{Name: corev1.ResourceCPU, Weight: 1}, {Name: corev1.ResourceMemory, Weight: 1}}
	}
	resources = slices.Clone(resources)
	for i := range resources {
		if resources[i].Weight == 0 {
			resources[i].Weight = 1
		}
	}
	return resources
}

// validate checks the arguments.
//
// Upstream: pkg/scheduler/apis/config/validation ValidateNodeResourcesFitArgs (v1.36).
func (a *FitArgs) validate() error {
	var all field.ErrorList
	for i, name := range a.IgnoredResources {
		all = append(all, metav1validation.ValidateLabelName(name, field.NewPath("ignoredResources").Index(i))...)
	}
	for i, group := range a.IgnoredResourceGroups {
		path := field.NewPath("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			all = append(all, field.Invalid(path, group, "resource group name can't contain '/'"))
		}
		all = append(all, metav1validation.ValidateLabelName(group, path)...)
	}
	return append(all, a.ScoringStrategy.validate(field.NewPath("scoringStrategy"))...).ToAggregate()
}

func (s *ScoringStrategy) validate(path *field.Path) field.ErrorList {
	var all field.ErrorList
	types := []ScoringStrategyType{LeastAllocated, MostAllocated, RequestedToCapacityRatio}
	if !slices.Contains(types, s.Type) {
		all = append(all, field.NotSupported(path.Child("type"), s.Type, types))
	}
	for i, r := range s.Resources {
		if r.Weight <= 0 || r.Weight > 100 {
			text := fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)
			all = append(all, field.Invalid(path.Child("resources").Index(i).Child("weight"), r.Weight, text))
		}
	}
	ratio := path.Child("requestedToCapacityRatio")
	switch {
	case s.Type != RequestedToCapacityRatio && s.RequestedToCapacityRatio != nil:
		all = append(all, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
	case s.Type == RequestedToCapacityRatio && s.RequestedToCapacityRatio == nil:
		all = append(all, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	case s.Type == RequestedToCapacityRatio:
		all = append(all, validateShape(s.RequestedToCapacityRatio.Shape, ratio.Child("shape"))...)
	}
	return all
}

func validateShape(shape []UtilizationShapePoint, path *field.Path) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var all field.ErrorList
	for i := 1; i < len(shape); i++ {
		if shape[i-1].Utilization >= shape[i].Utilization {
			all = append(all, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, point := range shape {
		if point.Utilization < 0 || point.Utilization > utilizationMax {
			all = append(all, field.Invalid(path.Index(i).Child("utilization"), point.Utilization, "not in valid range [0, 100]"))
		}
		if point.Score < 0 || point.Score > scoreMax {
			all = append(all, field.Invalid(path.Index(i).Child("score"), point.Score, "not in valid range [0, 10]"))
		}
	}
	return all
}

// validate checks the arguments.
//
// Upstream: pkg/scheduler/apis/config/validation ValidateNodeResourcesBalancedAllocationArgs (v1.36).
func (a *BalancedAllocationArgs) validate() error {
	var all field.ErrorList
	path := field.NewPath("resources")
	for i, r := range a.Resources {
		if slices.ContainsFunc(a.Resources[:i], func(o ResourceSpec) bool { return o.Name == r.Name }) {
			all = append(all, field.Duplicate(path.Index(i).Child("name"), r.Name))
		}
		if r.Weight != 1 {
			all = append(all, field.Invalid(path.Index(i).Child("weight"), r.Weight, "must be 1"))
		}
	}
	return all.ToAggregate()
}
