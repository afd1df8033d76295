package rules

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apipath "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of what admission webhooks and policies have in common: which requests they match.
//
// Upstream: pkg/apis/admissionregistration/validation.

const matchConditionsMax = 64

// defaultMatch sets the defaults of the match constraints of a policy or a binding. nil: there are none.
func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	setIfNil(&m.MatchPolicy, admissionv1.Equivalent)
	setIfNil(&m.NamespaceSelector, metav1.LabelSelector{})
	setIfNil(&m.ObjectSelector, metav1.LabelSelector{})
	for _, all := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range all {
			setIfNil(&all[i].Scope, admissionv1.AllScopes)
		}
	}
}

// validateMatch validates the match constraints of a policy or a binding. nil: there are none.
func validateMatch(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	if at := path.Child("matchPolicy"); m.MatchPolicy == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, oneOf(*m.MatchPolicy, at, admissionv1.Equivalent, admissionv1.Exact)...)
	}
	selector := func(s *metav1.LabelSelector, at *field.Path) {
		if s == nil {
			errs = append(errs, field.Required(at, ""))
			return
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)...)
	}
	selector(m.NamespaceSelector, path.Child("namespaceSelector"))
	selector(m.ObjectSelector, path.Child("objectSelector"))
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func validateNamedRule(r *admissionv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range r.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		for _, msg := range apipath.IsValidPathSegmentName(name) {
			errs = append(errs, field.Invalid(at, name, msg))
		}
		if slices.Contains(r.ResourceNames[:i], name) {
			errs = append(errs, field.Duplicate(at, name))
		}
	}
	return append(errs, validateAdmissionRule(&r.RuleWithOperations, path)...)
}

// validateAdmissionRule validates a rule that matches requests.
func validateAdmissionRule(r *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	operations := make([]string, len(r.Operations))
	for i, o := range r.Operations {
		operations[i] = string(o)
	}
	errs := validateAlternatives(operations, "operations", path.Child("operations"))
	for i, o := range r.Operations {
		errs = append(errs, oneOf(o, path.Child("operations").Index(i), admissionv1.OperationAll, admissionv1.Connect,
			admissionv1.Create, admissionv1.Delete, admissionv1.Update)...)
	}
	errs = append(errs, validateAlternatives(r.APIGroups, "API groups", path.Child("apiGroups"))...)
	errs = append(errs, validateAlternatives(r.APIVersions, "API versions", path.Child("apiVersions"))...)
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateRuleResources(r.Resources, path.Child("resources"))...)
	if r.Scope != nil {
		errs = append(errs, oneOf(*r.Scope, path.Child("scope"), admissionv1.AllScopes, admissionv1.ClusterScope,
			admissionv1.NamespacedScope)...)
	}
	return errs
}

// validateAlternatives validates a list in which "*" must be alone.
func validateAlternatives(values []string, what string, path *field.Path) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	}
	return nil
}

// validateRuleResources validates resources, such as "pods", "pods/*", "*/status" and "*". None may be listed that an
// earlier one includes.
//
// Upstream: validateResources. Only the last resource decides whether there is one without a subresource.
func validateRuleResources(resources []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	allOf, ofAll := map[string]bool{}, map[string]bool{} // resources with "x/*", subresources with "*/x"
	bare := false
	for i, r := range resources {
		at := path.Index(i)
		if r == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		resource, sub, both := strings.Cut(r, "/")
		if !both {
			bare = r != "*"
			continue
		}
		if allOf[resource] {
			errs = append(errs, field.Invalid(at, r, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, r)))
		}
		if ofAll[sub] {
			errs = append(errs, field.Invalid(at, r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		allOf[resource] = allOf[resource] || sub == "*"
		ofAll[sub] = ofAll[sub] || resource == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if bare && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(path, resources,
			"if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

// validateMatchConditions validates match conditions, except for what their expressions mean.
func validateMatchConditions(conditions []admissionv1.MatchCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > matchConditionsMax {
		errs = append(errs, field.TooMany(path, len(conditions), matchConditionsMax))
	}
	names := map[string]bool{}
	for i, c := range conditions {
		at := path.Index(i)
		if strings.TrimSpace(c.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, validateQualifiedName(c.Name, at.Child("name"))...)
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	return errs
}

func validateQualifiedName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}
