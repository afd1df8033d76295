package rules

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of pod templates.
//
// Upstream: pkg/registry/core/podtemplate; pkg/apis/core/validation ValidatePodTemplate.

func defaultPodTemplate(p *corev1.PodTemplate) { defaultTemplate(&p.Template) }

func preparePodTemplateCreate(_ metav1.Time, p, _ *corev1.PodTemplate) { p.Generation = 1 }

func preparePodTemplateUpdate(_ metav1.Time, p, old *corev1.PodTemplate) {
	if !equal(&p.Template, &old.Template) {
		p.Generation = old.Generation + 1
	}
}

func validatePodTemplate(p, _ *corev1.PodTemplate) field.ErrorList {
	return validateTemplateAt(&p.Template, field.NewPath("template"))
}
