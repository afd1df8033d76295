package crd

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// finalizerWarnings returns warnings for new finalizers without a qualified name.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource validateKubeFinalizerName.
func finalizerWarnings(obj, old *fake.CustomObject) []string {
	added := slices.Clone(obj.Finalizers)
	if old != nil {
		added = slices.DeleteFunc(added, func(f string) bool { return slices.Contains(old.Finalizers, f) })
	}
	slices.Sort(added)
	var warnings []string
	for _, f := range slices.Compact(added) {
		for _, msg := range utilvalidation.IsQualifiedName(f) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", f, msg))
		}
		switch {
		case strings.Contains(f, "/"), isStandard(f):
		case strings.Contains(f, "."):
			warnings = append(warnings,
				fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name "+
					"including a path (/) to avoid accidental conflicts with other finalizer writers", f))
		default:
			warnings = append(warnings,
				fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name "+
					"to avoid accidental conflicts with other finalizer writers", f))
		}
	}
	return warnings
}

func isStandard(finalizer string) bool {
	switch finalizer {
	case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes):
		return true
	}
	return false
}

// definitionWarnings returns warnings for new formats that are not validated.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition
// getUnrecognizedFormatsInCRD.
func definitionWarnings(obj, old *fake.CustomObject) []string {
	formats := unrecognizedFormats(obj)
	if old != nil {
		known := unrecognizedFormats(old)
		formats = slices.DeleteFunc(formats, func(f string) bool { return slices.Contains(known, f) })
	}
	var warnings []string
	for _, f := range formats {
		warnings = append(warnings, fmt.Sprintf("unrecognized format %q", f))
	}
	return warnings
}

func unrecognizedFormats(obj *fake.CustomObject) []string {
	crd := internal(obj)
	var all []string
	apiextensionsvalidation.HasSchemaWith(&crd.Spec, func(root *apiextensions.JSONSchemaProps) bool {
		return apiextensionsvalidation.SchemaHas(root, func(s *apiextensions.JSONSchemaProps) bool {
			if s.Format != "" && s.Type != "" {
				one := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
				all = append(all, validation.GetUnrecognizedFormats(one, environment.DefaultCompatibilityVersion())...)
			}
			return false
		})
	})
	slices.Sort(all)
	return slices.Compact(all)
}
