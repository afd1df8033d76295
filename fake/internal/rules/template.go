package rules

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	templatePath = specPath.Child("template")
	selectorPath = specPath.Child("selector")
)

const selectorMsg = "`selector` does not match template `labels`"

// validateTemplate validates the pod template of a workload.
func validateTemplate(t *corev1.PodTemplateSpec) field.ErrorList {
	return validateTemplateAt(t, templatePath)
}

// validateTemplateAt validates a pod template.
//
// Upstream: pkg/apis/core/validation ValidatePodTemplateSpec.
// Differs: as validatePod.
func validateTemplateAt(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, validatePodSpec("", &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	return errs
}

// validateRestartAlways validates that a template's pods are always restarted and have no deadline.
// owner is the kind of the object with the template.
func validateRestartAlways(t *corev1.PodTemplateSpec, owner string) field.ErrorList {
	var errs field.ErrorList
	path := templatePath.Child("spec")
	errs = append(errs, oneOf(t.Spec.RestartPolicy, path.Child("restartPolicy"), corev1.RestartPolicyAlways)...)
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"),
			fmt.Sprintf("activeDeadlineSeconds in %s is not Supported", owner)))
	}
	return errs
}

// parseSelector validates a selector and returns it if it is valid. owner is the kind of the object
// with the selector, in lower case; invalid is the message for an invalid one.
func parseSelector(s *metav1.LabelSelector, owner, invalid string) (labels.Selector, field.ErrorList) {
	var errs field.ErrorList
	if s == nil {
		errs = append(errs, field.Required(selectorPath, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{},
			selectorPath)...)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(selectorPath, s, "empty selector is invalid for "+owner))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, append(errs, field.Invalid(selectorPath, s, invalid))
	}
	return selector, errs
}

// validateSelects validates that a selector matches the labels of the template.
func validateSelects(selector labels.Selector, t *corev1.PodTemplateSpec) field.ErrorList {
	if selector.Empty() || selector.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(templatePath.Child("metadata", "labels"), t.Labels, selectorMsg)}
}

// A counted is a named numeric field.
type counted struct {
	name  string
	value int64
}

// validateNotNegative validates that numbers are not negative.
func validateNotNegative(path *field.Path, fields ...counted) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		errs = append(errs, validation.ValidateNonnegativeField(f.value, path.Child(f.name))...)
	}
	return errs
}

// validateAtMost validates that numbers are not greater than a limit, which what names.
func validateAtMost(path *field.Path, limit int64, what string, fields ...counted) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		if f.value > limit {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "cannot be greater than "+what))
		}
	}
	return errs
}

// countOf returns the counted field of a pointer; nil counts as 0.
func countOf[T int32 | int64](name string, value *T) counted {
	if value == nil {
		return counted{name, 0}
	}
	return counted{name, int64(*value)}
}

// validateCollisions validates that a collision count does not decrease.
func validateCollisions(count, old *int32) field.ErrorList {
	before, now := countOf("", old).value, countOf("", count).value
	if old != nil && (count == nil || now < before) {
		return field.ErrorList{field.Invalid(field.NewPath("status", "collisionCount"), int32(now),
			"cannot be decremented")}
	}
	return nil
}

// validatePortion validates a number or a percentage.
//
// Upstream: pkg/apis/apps/validation ValidatePositiveIntOrPercent.
func validatePortion(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type == intstr.Int {
		return validation.ValidateNonnegativeField(int64(v.IntValue()), path)
	}
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidPercent(v.StrVal) {
		errs = append(errs, field.Invalid(path, v, msg))
	}
	return errs
}

// percentOf returns a percentage. The bool is false if v is not one.
func percentOf(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(utilvalidation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return n, err == nil
}

func portion(v intstr.IntOrString) int {
	if n, ok := percentOf(v); ok {
		return n
	}
	return v.IntValue()
}

func validateWhole(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if n, ok := percentOf(v); ok && n > 100 {
		return field.ErrorList{field.Invalid(path, v, "must not be greater than 100%")}
	}
	return nil
}
