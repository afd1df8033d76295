package crd

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultsCostMax is the limit of the cost of a version's defaults. It takes some seconds. Defaults
// on each of 1,400 levels are below it, and so are those on ten levels of a schema with 100,000
// fields.
const defaultsCostMax = 1_000_000

// checkDefaultsCost returns errors if the defaults of a definition cost too much. Upstream converts
// and validates the schema of each default again, with all that is below it.
//
// Differs: the real server has no such bound.
func checkDefaultsCost(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	var errs field.ErrorList
	check := func(path *field.Path, of *apiextensions.CustomResourceValidation) {
		if of == nil {
			return
		}
		if _, cost := costOfDefaults(of.OpenAPIV3Schema); cost > defaultsCostMax {
			errs = append(errs, field.Forbidden(path.Child("openAPIV3Schema"),
				fmt.Sprintf("the schemas of its defaults have %d fields in total, more than %d", cost, defaultsCostMax)))
		}
	}
	check(field.NewPath("spec", "validation"), crd.Spec.Validation)
	for i, v := range crd.Spec.Versions {
		check(field.NewPath("spec", "versions").Index(i).Child("schema"), v.Schema)
	}
	return errs
}

// costOfDefaults returns the number of schemas in a schema, and the sum of these numbers for those
// with a default.
func costOfDefaults(s *apiextensions.JSONSchemaProps) (size, cost int) {
	if s == nil {
		return 0, 0
	}
	size = 1
	add := func(part *apiextensions.JSONSchemaProps) {
		n, c := costOfDefaults(part)
		size, cost = size+n, cost+c
	}
	for name := range s.Properties {
		part := s.Properties[name]
		add(&part)
	}
	if s.Items != nil {
		add(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		add(s.AdditionalProperties.Schema)
	}
	if s.Default != nil {
		cost += size
	}
	return size, cost
}
