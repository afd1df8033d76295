package rules

import (
	"errors"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file has the rules of autoscalers, in version 2.
//
// Differs: the resource of a ContainerResource metric is validated as any resource.
//
// Upstream: pkg/registry/autoscaling/horizontalpodautoscaler; pkg/apis/autoscaling/v2 (defaults),
// pkg/apis/autoscaling/validation.

const (
	scalingPeriodMax = 1800
	scalingWindowMax = 3600
	metricTypeMsg    = "must populate information for the given metric source"
	utilizationMsg   = "must set either a target raw value or a target utilization"
	bothTargetsMsg   = "may not set both a target raw value and a target utilization"
)

func defaultAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	setIfNil(&a.Spec.MinReplicas, 1)
	if len(a.Spec.Metrics) == 0 {
		a.Spec.Metrics = []autoscalingv2.MetricSpec{CPUMetric(80)}
	}
	if b := a.Spec.Behavior; b != nil {
		b.ScaleUp = scalingRules(b.ScaleUp, ptr.To[int32](0),
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
		b.ScaleDown = scalingRules(b.ScaleDown, nil,
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
	}
}

// CPUMetric returns the metric that keeps the CPU utilization of pods at a percentage of their
// requests.
func CPUMetric(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}

// scalingRules returns rules with defaults.
func scalingRules(
	r *autoscalingv2.HPAScalingRules, window *int32, policies ...autoscalingv2.HPAScalingPolicy,
) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	setIfNil(&r.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = window
	}
	if r.Policies == nil {
		r.Policies = policies
	}
	return r
}

func prepareAutoscalerCreate(_ metav1.Time, a, _ *autoscalingv2.HorizontalPodAutoscaler) {
	a.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
}

// A refCheck says how the API version of a reference is validated.
type refCheck struct{ anyVersion, noGroup bool }

func validateAutoscaler(a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	target, object, least := refCheck{}, refCheck{noGroup: true}, int32(1)
	ref := &a.Spec.ScaleTargetRef
	if old != nil {
		if ptr.Deref(old.Spec.MinReplicas, 1) == 0 {
			least = 0
		}
		object.anyVersion = slices.ContainsFunc(old.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
			return m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil &&
				invalidVersion(&m.Object.DescribedObject, object) != nil
		})
	}
	switch {
	case old != nil && old.Spec.ScaleTargetRef.APIVersion == ref.APIVersion && old.Spec.ScaleTargetRef.Kind == ref.Kind:
		target.anyVersion = true
	case ref.Kind == "ReplicationController":
		target.noGroup = true
	}
	errs := validateScalingRange(&a.Spec, least)
	errs = append(errs, validateObjectReference(ref, target, specPath.Child("scaleTargetRef"))...)
	errs = append(errs, validateMetrics(&a.Spec, object, specPath.Child("metrics"))...)
	if b := a.Spec.Behavior; b != nil {
		path := specPath.Child("behavior")
		errs = append(errs, validateScalingRules(b.ScaleUp, path.Child("scaleUp"))...)
		errs = append(errs, validateScalingRules(b.ScaleDown, path.Child("scaleDown"))...)
	}
	return errs
}

func validateScalingRange(spec *autoscalingv2.HorizontalPodAutoscalerSpec, least int32) field.ErrorList {
	var errs field.ErrorList
	lower, most := spec.MinReplicas, specPath.Child("maxReplicas")
	if lower != nil && *lower < least {
		errs = append(errs, field.Invalid(specPath.Child("minReplicas"), *lower, fmt.Sprintf("must be greater than or equal to %d", least)))
	}
	switch {
	case spec.MaxReplicas == 0:
		errs = append(errs, field.Required(most, "must be set and greater than 0"))
	case spec.MaxReplicas < 0:
		errs = append(errs, field.Invalid(most, spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if lower != nil && spec.MaxReplicas < *lower {
		errs = append(errs, field.Invalid(most, spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	return errs
}

func validateObjectReference(ref *autoscalingv2.CrossVersionObjectReference, check refCheck, path *field.Path) field.ErrorList {
	errs := validateReference(nil, ref.Kind, ref.Name, path)
	if err := invalidVersion(ref, check); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	return errs
}

func invalidVersion(ref *autoscalingv2.CrossVersionObjectReference, check refCheck) error {
	if check.anyVersion {
		return nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err == nil && gv.Group == "" && !check.noGroup {
		err = errors.New("apiVersion must specify API group")
	}
	return err
}

func validateMetrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec, check refCheck, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	measurable := false
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		errs = append(errs, validateMetric(m, check, path.Index(i))...)
		measurable = measurable || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if ptr.Deref(spec.MinReplicas, 1) == 0 && !measurable {
		errs = append(errs, field.Forbidden(path, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// A metricSource is one of the fields of a metric that describe its source.
type metricSource struct {
	of       autoscalingv2.MetricSourceType
	name     string // of the field
	set      bool
	validate func(path *field.Path) field.ErrorList
}

// sourcesOf returns the sources of a metric in upstream's order.
func sourcesOf(m *autoscalingv2.MetricSpec, check refCheck) []metricSource {
	return []metricSource{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(path *field.Path) field.ErrorList {
			return validateObjectMetric(m.Object, check, path)
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(path *field.Path) field.ErrorList {
			return validateExternalMetric(m.External, path)
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(path *field.Path) field.ErrorList {
			return validatePodsMetric(m.Pods, path)
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(path *field.Path) field.ErrorList {
			return validateResourceMetric(m.Resource.Name, &m.Resource.Target, path)
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(path *field.Path) field.ErrorList {
			return validateContainerMetric(m.ContainerResource, path)
		}},
	}
}

// validateMetric validates a metric, and of its sources the first: only one may be set.
func validateMetric(m *autoscalingv2.MetricSpec, check refCheck, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("type")
	unknown := oneOf(m.Type, at, autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	if m.Type == "" {
		errs = append(errs, field.Required(at, "must specify a metric source type"))
	}
	errs = append(errs, unknown...)
	all, set := sourcesOf(m, check), 0
	for _, s := range all {
		if !s.set {
			continue
		}
		if set++; set == 1 {
			errs = append(errs, s.validate(path.Child(s.name))...)
		}
	}
	for _, s := range all {
		if s.of == m.Type && !s.set {
			errs = append(errs, field.Required(path.Child(s.name), metricTypeMsg))
		}
	}
	errs = append(errs, unknown...) // upstream lists it twice
	for _, s := range all {
		if s.set && set > 1 && s.of != m.Type {
			errs = append(errs, field.Forbidden(path.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func validateObjectMetric(s *autoscalingv2.ObjectMetricSource, check refCheck, path *field.Path) field.ErrorList {
	errs := validateObjectReference(&s.DescribedObject, check, path.Child("describedObject"))
	errs = append(errs, validateMetricName(&s.Metric, &s.Target, path)...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternalMetric(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := validateMetricName(&s.Metric, &s.Target, path)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"),
			"must set either a target value for metric or a per-pod target"))
	}
	if s.Target.Value != nil && s.Target.AverageValue != nil {
		errs = append(errs, field.Forbidden(path.Child("target", "value"),
			"may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePodsMetric(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := validateMetricName(&s.Metric, &s.Target, path)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func validateContainerMetric(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, validateResourceName(s.Name, path.Child("name"))...)
	}
	if at := path.Child("container"); s.Container == "" {
		errs = append(errs, field.Required(at, "must specify a container"))
	} else {
		errs = append(errs, validateLabel(s.Container, at)...)
	}
	return append(errs, validateUtilization(&s.Target, path.Child("target"))...)
}

func validateResourceMetric(name corev1.ResourceName, target *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateUtilization(target, path.Child("target"))...)
}

// validateUtilization validates the target of a metric of a resource.
func validateUtilization(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := validateMetricTarget(t, path)
	if t.AverageUtilization == nil && t.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("averageUtilization"), utilizationMsg))
	}
	if t.AverageUtilization != nil && t.AverageValue != nil {
		errs = append(errs, field.Forbidden(path.Child("averageValue"), bothTargetsMsg))
	}
	return errs
}

func validateMetricName(id *autoscalingv2.MetricIdentifier, t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if at := path.Child("metric", "name"); id.Name == "" {
		errs = append(errs, field.Required(at, "must specify a metric name"))
	} else {
		errs = append(errs, validatePathSegment(id.Name, at)...)
	}
	return append(errs, validateMetricTarget(t, path.Child("target"))...)
}

func validateMetricTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("type")
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	case "":
		errs = append(errs, field.Required(at, "must specify a metric target type"))
		fallthrough
	default:
		errs = append(errs, field.Invalid(at, t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

func validateScalingRules(r *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if window, at := r.StabilizationWindowSeconds, path.Child("stabilizationWindowSeconds"); window != nil {
		if *window < 0 {
			errs = append(errs, field.Invalid(at, *window, "must be greater than or equal to zero"))
		}
		if *window > scalingWindowMax {
			errs = append(errs, field.Invalid(at, *window, fmt.Sprintf("must be less than or equal to %v", scalingWindowMax)))
		}
	}
	if r.SelectPolicy != nil {
		errs = append(errs, oneOf(*r.SelectPolicy, path.Child("selectPolicy"), autoscalingv2.DisabledPolicySelect,
			autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)...)
	}
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(path.Child("policies"), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		errs = append(errs, validateScalingPolicy(&p, path.Child("policies").Index(i))...)
	}
	if r.Tolerance != nil {
		errs = append(errs, notNegative(*r.Tolerance, path.Child("tolerance"))...)
	}
	return errs
}

func validateScalingPolicy(p *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	errs := oneOf(p.Type, path.Child("type"), autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), p.Value, "must be greater than zero"))
	}
	at := path.Child("periodSeconds")
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(at, p.PeriodSeconds, "must be greater than zero"))
	}
	if p.PeriodSeconds > scalingPeriodMax {
		errs = append(errs, field.Invalid(at, p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", scalingPeriodMax)))
	}
	return errs
}

func validateAutoscalerStatus(a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	return validateNotNegative(field.NewPath("status"), counted{"currentReplicas", int64(a.Status.CurrentReplicas)},
		counted{"desiredReplicas", int64(a.Status.DesiredReplicas)})
}
