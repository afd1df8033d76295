package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of quotas and limit ranges.
//
// Upstream: pkg/apis/core/validation ValidateResourceQuota, ValidateLimitRange.

const (
	standardMsg = "must be a standard resource type or fully qualified"
	quotaMsg    = "must be a standard resource for quota"
	limitsMsg   = "must be a standard limit type or fully qualified"
)

// computeResources are the resources that a quota may scope.
var computeResources = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
}

// quotaResources are the other resources that a quota may limit, besides those with a domain.
var quotaResources = []corev1.ResourceName{
	corev1.ResourceEphemeralStorage, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsEphemeralStorage, corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices,
	corev1.ResourceReplicationControllers, corev1.ResourceSecrets, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceConfigMaps, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

func quotaResource(name corev1.ResourceName) bool {
	return slices.Contains(computeResources, name) || slices.Contains(quotaResources, name)
}

// validateResourceName validates that a resource is a standard one or is qualified with a domain.
func validateResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := validateQualified(string(name), path)
	known := quotaResource(name) || name == corev1.ResourceStorage || strings.HasPrefix(string(name),
		corev1.ResourceHugePagesPrefix)
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !known {
		errs = append(errs, field.Invalid(path, name, standardMsg))
	}
	return errs
}

// validateQuotaList validates the resources of a quota and their quantities.
func validateQuotaList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		path := path.Key(string(name))
		errs = append(errs, validateResourceName(name, path)...)
		if !strings.Contains(string(name), "/") && !quotaResource(name) {
			errs = append(errs, field.Invalid(path, name, quotaMsg))
		}
		errs = append(errs, validateResource(name, list[name], path)...)
	}
	return errs
}

func prepareQuotaCreate(_ metav1.Time, q, _ *corev1.ResourceQuota) {
	q.Status = corev1.ResourceQuotaStatus{}
}

func validateQuota(q, _ *corev1.ResourceQuota) field.ErrorList {
	errs := validateQuotaList(q.Spec.Hard, specPath.Child("hard"))
	errs = append(errs, validateScopes(&q.Spec, specPath.Child("scopes"))...)
	if q.Spec.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(&q.Spec, specPath.Child("scopeSelector", "matchExpressions"))...)
	}
	return errs
}

// validateScopeSelector validates the requirements of a quota on its objects.
//
// Upstream: pkg/apis/core/validation validateScopedResourceSelectorRequirement.
func validateScopeSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		fits, ok := scopes[r.ScopeName]
		if !ok {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
			if quotaResource(name) && ok && !fits(name) {
				errs = append(errs, field.Invalid(path, spec.ScopeSelector, "unsupported scope applied to resource"))
			}
		}
		if slices.Contains(existingScopes, r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, existsMsg))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		seen = append(seen, r.ScopeName)
	}
	return append(errs, validatePairs(seen, spec.Scopes, path)...)
}

const existsMsg = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, " +
	"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"

// existingScopes are the scopes that an object is in or not; the others have values.
var existingScopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
	corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
}

// validatePairs returns an error for two scopes that exclude each other.
func validatePairs(seen, shown []corev1.ResourceQuotaScope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(seen, pair[0]) && slices.Contains(seen, pair[1]) {
			errs = append(errs, field.Invalid(path, shown, "conflicting scopes"))
		}
	}
	return errs
}

// scopes are the scopes that a quota may have. The function reports whether a scope applies to a
// resource.
var scopes = map[corev1.ResourceQuotaScope]func(corev1.ResourceName) bool{
	corev1.ResourceQuotaScopeBestEffort:    func(r corev1.ResourceName) bool { return r == corev1.ResourcePods },
	corev1.ResourceQuotaScopeTerminating:   scopedToPods,
	corev1.ResourceQuotaScopeNotBestEffort: scopedToPods, corev1.ResourceQuotaScopeNotTerminating: scopedToPods,
	corev1.ResourceQuotaScopePriorityClass: scopedToPods, corev1.ResourceQuotaScopeCrossNamespacePodAffinity: scopedToPods,
	corev1.ResourceQuotaScopeVolumeAttributesClass: func(r corev1.ResourceName) bool {
		return r == corev1.ResourcePersistentVolumeClaims || r == corev1.ResourceRequestsStorage
	},
}

func scopedToPods(r corev1.ResourceName) bool {
	return r == corev1.ResourcePods || slices.Contains(computeResources, r)
}

func validateScopes(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, scope := range spec.Scopes {
		fits, ok := scopes[scope]
		if !ok {
			errs = append(errs, field.Invalid(path, spec.Scopes, "unsupported scope"))
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
			if quotaResource(name) && ok && !fits(name) {
				errs = append(errs, field.Invalid(path, spec.Scopes, "unsupported scope applied to resource"))
			}
		}
	}
	return append(errs, validatePairs(spec.Scopes, spec.Scopes, path)...)
}

func validateQuotaUpdate(q, old *corev1.ResourceQuota) field.ErrorList {
	errs := validateQuota(q, nil)
	scopes, oldScopes := slices.Sorted(slices.Values(q.Spec.Scopes)), slices.Sorted(slices.Values(old.Spec.Scopes))
	if !slices.Equal(slices.Compact(scopes), slices.Compact(oldScopes)) {
		errs = append(errs, field.Invalid(specPath.Child("scopes"), q.Spec.Scopes, immutableMsg))
	}
	return errs
}

func validateQuotaStatus(q, _ *corev1.ResourceQuota) field.ErrorList {
	errs := validateQuotaList(q.Status.Hard, statusPath.Child("hard"))
	return append(errs, validateQuotaList(q.Status.Used, statusPath.Child("used"))...)
}

// defaultLimits derives the missing limits of a container from the others.
func defaultLimits(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type == corev1.LimitTypeContainer {
			item.Default = completed(item.Default, item.Max)
			item.DefaultRequest = completed(completed(item.DefaultRequest, item.Default), item.Min)
		}
	}
}

// completed returns a list with the entries of the other that it lacks.
func completed(list, other corev1.ResourceList) corev1.ResourceList {
	for name, q := range other {
		if _, ok := list[name]; !ok {
			if list == nil {
				list = corev1.ResourceList{}
			}
			list[name] = q.DeepCopy()
		}
	}
	return list
}

func validateLimits(l, _ *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, path := &l.Spec.Limits[i], specPath.Child("limits").Index(i)
		errs = append(errs, validateLimitType(item.Type, path.Child("type"))...)
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, validateLimitItem(item, path)...)
	}
	return errs
}

func validateLimitsUpdate(l, _ *corev1.LimitRange) field.ErrorList { return validateLimits(l, nil) }

func validateLimitType(t corev1.LimitType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(string(t)) {
		errs = append(errs, field.Invalid(path, t, msg))
	}
	standard := []corev1.LimitType{
		corev1.LimitTypePod, corev1.LimitTypeContainer,
		corev1.LimitTypePersistentVolumeClaim,
	}
	if len(errs) == 0 && !strings.Contains(string(t), "/") && !slices.Contains(standard, t) {
		errs = append(errs, field.Invalid(path, t, limitsMsg))
	}
	return errs
}

// validateLimitItem validates that the limits of one type do not contradict each other.
func validateLimitItem(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	lists := []struct {
		name string
		list corev1.ResourceList
	}{{"max", item.Max}, {"min", item.Min}, {"default", item.Default}, {"defaultRequest", item.DefaultRequest}}
	names := corev1.ResourceList{}
	for i, l := range lists {
		if i > 1 && item.Type == corev1.LimitTypePod {
			if len(l.list) > 0 {
				errs = append(errs, field.Forbidden(path.Child(l.name), "may not be specified when `type` is 'Pod'"))
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(l.list)) {
			errs = append(errs, validateResourceName(name, path.Child(l.name).Key(string(name)))...)
			names[name] = apiresource.Quantity{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		errs = append(errs, validateResourceName(name, path.Child("maxLimitRequestRatio").Key(string(name)))...)
		names[name] = apiresource.Quantity{}
	}
	_, least := item.Min[corev1.ResourceStorage]
	_, most := item.Max[corev1.ResourceStorage]
	if item.Type == corev1.LimitTypePersistentVolumeClaim && !least && !most {
		errs = append(errs, field.Required(path.Child("limits"),
			"either minimum or maximum storage value is required, but neither was provided"))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		errs = append(errs, validateOrder(item, name, path)...)
		errs = append(errs, validateRatio(item, name, path.Child("maxLimitRequestRatio").Key(string(name)))...)
		limit, limited := item.Default[name]
		request, requested := item.DefaultRequest[name]
		if !overcommits(name) && limited && requested && limit.Cmp(request) != 0 {
			errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(name)), request.String(), fmt.Sprintf(
				"default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)))
		}
	}
	return errs
}

// overcommits reports whether the limits of a resource may exceed what there is.
//
// Upstream: pkg/apis/core/helper IsOvercommitAllowed.
func overcommits(name corev1.ResourceName) bool {
	return (!strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)) &&
		!strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// validateRatio validates that the maximum ratio of limit and request is possible.
func validateRatio(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ratio, ok := item.MaxLimitRequestRatio[name]
	if !ok {
		return nil
	}
	if ratio.Cmp(apiresource.MustParse("1")) < 0 {
		errs = append(errs, field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	if !hasLeast || !hasMost {
		return errs
	}
	if limit := most.AsApproximateFloat64() / least.AsApproximateFloat64(); ratio.AsApproximateFloat64() > limit {
		errs = append(errs, field.Invalid(path, ratio.String(), fmt.Sprintf(
			"ratio %s is greater than max/min = %f", ratio.String(), limit)))
	}
	return errs
}

// validateOrder validates that min, defaultRequest, default and max of one resource are in
// ascending order.
func validateOrder(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	const least, most, request, limit = "min value", "max value", "default request value", "default value"
	var errs field.ErrorList
	for _, pair := range []struct {
		small, great         corev1.ResourceList
		smallName, greatName string
		at                   string
		blame                corev1.ResourceList
	}{
		{item.Min, item.Max, least, most, "min", item.Min},
		{item.Min, item.DefaultRequest, least, request, "defaultRequest", item.DefaultRequest},
		{item.DefaultRequest, item.Max, request, most, "defaultRequest", item.DefaultRequest},
		{item.DefaultRequest, item.Default, request, "default limit value", "defaultRequest", item.DefaultRequest},
		{item.Min, item.Default, least, limit, "default", item.Min},
		{item.Default, item.Max, limit, most, "default", item.Max},
	} {
		small, ok := pair.small[name]
		great, also := pair.great[name]
		if blame := pair.blame[name]; ok && also && small.Cmp(great) > 0 {
			errs = append(errs, field.Invalid(path.Child(pair.at).Key(string(name)), blame.String(), fmt.Sprintf(
				"%s %s is greater than %s %s", pair.smallName, small.String(), pair.greatName, great.String())))
		}
	}
	return errs
}
