package rules

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of roles and their bindings.
//
// Upstream: pkg/apis/rbac/validation; pkg/apis/rbac/v1/defaults.go.

var (
	rulesPath    = field.NewPath("rules")
	roleRefPath  = field.NewPath("roleRef")
	subjectsPath = field.NewPath("subjects")
)

// pathSegment returns the reasons why a name, or the prefix of one, is not a valid path segment.
func pathSegment(name string, prefix bool) []string {
	return path.ValidatePathSegmentName(name, prefix)
}

func validateRole(role, _ *rbacv1.Role) field.ErrorList {
	var errs field.ErrorList
	for i := range role.Rules {
		errs = append(errs, validateRule(&role.Rules[i], true, rulesPath.Index(i))...)
	}
	return errs
}

func validateRoleUpdate(role, _ *rbacv1.Role) field.ErrorList { return validateRole(role, nil) }

func validateClusterRole(role, _ *rbacv1.ClusterRole) field.ErrorList {
	var errs field.ErrorList
	for i := range role.Rules {
		errs = append(errs, validateRule(&role.Rules[i], false, rulesPath.Index(i))...)
	}
	if role.AggregationRule == nil {
		return errs
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs,
			field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(&role.AggregationRule.ClusterRoleSelectors[i],
			metav1validation.LabelSelectorValidationOptions{}, at.Index(i))...)
	}
	return errs
}

func validateClusterRoleUpdate(role, _ *rbacv1.ClusterRole) field.ErrorList {
	return validateClusterRole(role, nil)
}

func validateRule(rule *rbacv1.PolicyRule, namespaced bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
	}
	if urls := rule.NonResourceURLs; len(urls) > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), urls,
				"namespaced rules cannot apply to non-resource URLs"))
		}
		if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), urls,
				"rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func defaultRoleRef(ref *rbacv1.RoleRef) { setIfEmpty(&ref.APIGroup, rbacv1.GroupName) }

func defaultSubjects(subjects []rbacv1.Subject) {
	for i := range subjects {
		switch subjects[i].Kind {
		case rbacv1.UserKind, rbacv1.GroupKind:
			setIfEmpty(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func defaultRoleBinding(b *rbacv1.RoleBinding) {
	defaultRoleRef(&b.RoleRef)
	defaultSubjects(b.Subjects)
}

func defaultClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	defaultRoleRef(&b.RoleRef)
	defaultSubjects(b.Subjects)
}

func validateRoleBinding(b, _ *rbacv1.RoleBinding) field.ErrorList {
	errs := validateRoleRef(&b.RoleRef, "Role", "ClusterRole")
	return append(errs, validateSubjects(b.Subjects, true)...)
}

func validateRoleBindingUpdate(b, old *rbacv1.RoleBinding) field.ErrorList {
	return append(validateRoleBinding(b, nil), sameRole(b.RoleRef, old.RoleRef)...)
}

func validateClusterRoleBinding(b, _ *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := validateRoleRef(&b.RoleRef, "ClusterRole")
	return append(errs, validateSubjects(b.Subjects, false)...)
}

func validateClusterRoleBindingUpdate(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	return append(validateClusterRoleBinding(b, nil), sameRole(b.RoleRef, old.RoleRef)...)
}

func sameRole(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(roleRefPath, goFields{ref}, "cannot change roleRef")}
}

func validateRoleRef(ref *rbacv1.RoleRef, kinds ...string) field.ErrorList {
	errs := oneOfOrdered(ref.APIGroup, roleRefPath.Child("apiGroup"), rbacv1.GroupName)
	errs = append(errs, oneOfOrdered(ref.Kind, roleRefPath.Child("kind"), kinds...)...)
	if ref.Name == "" {
		return append(errs, field.Required(roleRefPath.Child("name"), ""))
	}
	for _, msg := range pathSegment(ref.Name, false) {
		errs = append(errs, field.Invalid(roleRefPath.Child("name"), ref.Name, msg))
	}
	return errs
}

// oneOfOrdered is oneOf with the values listed in the given order.
func oneOfOrdered(value string, at *field.Path, values ...string) field.ErrorList {
	for _, v := range values {
		if v == value {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(at, value, values)}
}

func validateSubjects(subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, s := range subjects {
		at := subjectsPath.Index(i)
		errs = append(errs, require(at, named{"name", s.Name})...)
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			if s.Name != "" {
				errs = append(errs, validateName(s.Name, at.Child("name"))...)
			}
			errs = append(errs, oneOfOrdered(s.APIGroup, at.Child("apiGroup"), "")...)
			if !namespaced {
				errs = append(errs, require(at, named{"namespace", s.Namespace})...)
			}
		case rbacv1.UserKind, rbacv1.GroupKind:
			errs = append(errs, oneOfOrdered(s.APIGroup, at.Child("apiGroup"), rbacv1.GroupName)...)
		default:
			errs = append(errs, oneOfOrdered(s.Kind, at.Child("kind"), rbacv1.ServiceAccountKind, rbacv1.UserKind,
				rbacv1.GroupKind)...)
		}
	}
	return errs
}
