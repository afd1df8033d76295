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

// validateTemplate checks a template of pods.
//
// Upstream: pkg/apis/core/validation ValidatePodTemplateSpec.
// Differs: as validatePod.
func validateTemplate(t *corev1.PodTemplateSpec) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, templatePath.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(t.Annotations, templatePath.Child("annotations"))...)
	errs = append(errs, validatePodSpec("", &t.Spec, templatePath.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(templatePath.Child("spec", "ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	return errs
}

// validateAlways checks that a template's pods are always started again, and have no deadline. who is their kind of maker.
func validateAlways(t *corev1.PodTemplateSpec, who string) field.ErrorList {
	var errs field.ErrorList
	path := templatePath.Child("spec")
	errs = append(errs, oneOf(t.Spec.RestartPolicy, path.Child("restartPolicy"), corev1.RestartPolicyAlways)...)
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"),
			fmt.Sprintf("activeDeadlineSeconds in %s is not Supported", who)))
	}
	return errs
}

// selecting checks a selector, and returns it if it is in order. who, in small letters, is the kind of whose it is; bad
// what to say of one that is not in order.
func selecting(s *metav1.LabelSelector, who, bad string) (labels.Selector, field.ErrorList) {
	var errs field.ErrorList
	if s == nil {
		errs = append(errs, field.Required(selectorPath, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{},
			selectorPath)...)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(selectorPath, s, "empty selector is invalid for "+who))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, append(errs, field.Invalid(selectorPath, s, bad))
	}
	return selector, errs
}

// selectsOwn checks that a selector selects what a template makes.
func selectsOwn(selector labels.Selector, t *corev1.PodTemplateSpec) field.ErrorList {
	if selector.Empty() || selector.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(templatePath.Child("metadata", "labels"), t.Labels, selectorMsg)}
}

// counted is a field that is a number, and its name.
type counted struct {
	name  string
	value int64
}

// notLess checks that numbers are not negative.
func notLess(path *field.Path, fields ...counted) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		errs = append(errs, validation.ValidateNonnegativeField(f.value, path.Child(f.name))...)
	}
	return errs
}

// notMore checks that numbers are not greater than another, which what names.
func notMore(path *field.Path, limit int64, what string, fields ...counted) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		if f.value > limit {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "cannot be greater than "+what))
		}
	}
	return errs
}

// ofPointer is a counted field that may be nil, and is then 0.
func ofPointer[T int32 | int64](name string, value *T) counted {
	if value == nil {
		return counted{name, 0}
	}
	return counted{name, int64(*value)}
}

// validateCollisions checks that a count of collisions does not go back.
func validateCollisions(is, was *int32) field.ErrorList {
	before, now := ofPointer("", was).value, ofPointer("", is).value
	if was != nil && (is == nil || now < before) {
		return field.ErrorList{field.Invalid(field.NewPath("status", "collisionCount"), int32(now), "cannot be decremented")}
	}
	return nil
}

// validatePortion checks a number or a percentage.
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

// percentOf reads a percentage, and tells whether it is one.
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
