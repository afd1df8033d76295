package quota

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// InScopes reports whether an object is in all scopes of a quota.
func InScopes(q *corev1.ResourceQuota, obj metav1.Object) (bool, error) {
	for _, scope := range q.Spec.Scopes {
		in, err := inScope(corev1.ScopedResourceSelectorRequirement{
			ScopeName: scope, Operator: corev1.ScopeSelectorOpExists,
		}, obj)
		if !in || err != nil {
			return false, err
		}
	}
	if q.Spec.ScopeSelector == nil {
		return true, nil
	}
	for _, requirement := range q.Spec.ScopeSelector.MatchExpressions {
		in, err := inScope(requirement, obj)
		if !in || err != nil {
			return false, err
		}
	}
	return true, nil
}

func inScope(scope corev1.ScopedResourceSelectorRequirement, obj metav1.Object) (bool, error) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		return podInScope(scope, obj)
	case *corev1.PersistentVolumeClaim:
		if scope.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass {
			return selects(scope, attributesClasses(obj)...)
		}
	}
	return false, nil
}

// podInScope reports whether a pod is in a scope.
//
// Upstream: pkg/quota/v1/evaluator/core podMatchesScopeFunc.
func podInScope(scope corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) (bool, error) {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return IsTerminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !IsTerminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod), nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod), nil
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return selects(scope)
		}
		return selects(scope, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return hasCrossNamespaceAffinity(pod), nil
	}
	return false, nil
}

// IsTerminating reports whether a pod ends by itself, in the sense of scopes: it has a deadline.
func IsTerminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// isBestEffort reports whether no container of a pod states CPU or memory.
//
// Upstream: pkg/apis/core/v1/helper/qos GetPodQOS.
func isBestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	states := func(r *corev1.ResourceRequirements) bool {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if list.Cpu().Sign() > 0 || list.Memory().Sign() > 0 {
				return true
			}
		}
		return false
	}
	if pod.Spec.Resources != nil {
		return !states(pod.Spec.Resources)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if slices.ContainsFunc(containers, func(c corev1.Container) bool { return states(&c.Resources) }) {
			return false
		}
	}
	return true
}

func hasCrossNamespaceAffinity(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	crosses := func(term corev1.PodAffinityTerm) bool {
		return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	}
	weightedCrosses := func(term corev1.WeightedPodAffinityTerm) bool { return crosses(term.PodAffinityTerm) }
	if a := pod.Spec.Affinity.PodAffinity; a != nil &&
		(slices.ContainsFunc(a.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
			slices.ContainsFunc(a.PreferredDuringSchedulingIgnoredDuringExecution, weightedCrosses)) {
		return true
	}
	a := pod.Spec.Affinity.PodAntiAffinity
	return a != nil &&
		(slices.ContainsFunc(a.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
			slices.ContainsFunc(a.PreferredDuringSchedulingIgnoredDuringExecution, weightedCrosses))
}

// attributesClasses returns the VolumeAttributesClasses that a claim refers to.
//
// Upstream: pkg/quota/v1/evaluator/core getReferencedVolumeAttributesClassNames.
func attributesClasses(claim *corev1.PersistentVolumeClaim) []string {
	var classes []string
	add := func(class *string) {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	add(claim.Spec.VolumeAttributesClassName)
	add(claim.Status.CurrentVolumeAttributesClassName)
	if status := claim.Status.ModifyVolumeStatus; status != nil {
		add(&status.TargetVolumeAttributesClassName)
	}
	return classes
}

// selects reports whether a scope selects one of the values that an object has, or its lack of any.
func selects(scope corev1.ScopedResourceSelectorRequirement, values ...string) (bool, error) {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	operator, ok := operators[scope.Operator]
	if !ok {
		return false, fmt.Errorf("failed to parse and convert selector: %q is not a valid scope selector operator", scope.Operator)
	}
	requirement, err := labels.NewRequirement(string(scope.ScopeName), operator, scope.Values)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	if len(values) == 0 {
		return requirement.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(values, func(value string) bool {
		return requirement.Matches(labels.Set{string(scope.ScopeName): value})
	}), nil
}
