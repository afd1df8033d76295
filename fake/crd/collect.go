package crd

import (
	"errors"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// A schemaValidator validates values by upstream's code. Upstream compares each error of an object
// with each other, at each level, which takes minutes for 100,000 errors. The errors of parts are
// therefore collected aside.
type schemaValidator struct{ schema *spec.Schema }

var _ validation.SchemaValidator = schemaValidator{}

// Validate validates a new value.
func (v schemaValidator) Validate(value any, options ...validation.ValidationOption) *validate.Result {
	c := &collector{}
	return c.all(c.validator(v.schema).Validate(value, options...))
}

// ValidateUpdate validates a changed value.
func (v schemaValidator) ValidateUpdate(value, old any, options ...validation.ValidationOption) *validate.Result {
	c := &collector{}
	return c.all(c.validator(v.schema).ValidateUpdate(value, old, options...))
}

// A collector has the errors of the parts that were validated.
type collector struct{ errs []error }

// errCollected stands for the errors of a part in the result for the whole.
var errCollected = errors.New("errors were collected\x00")

func (c *collector) validator(schema *spec.Schema) *validation.RatchetingSchemaValidator {
	return validation.NewRatchetingSchemaValidator(schema, nil, "", strfmt.Default, c.hook)
}

// hook makes a validator collect the errors of its fields and elements.
func (c *collector) hook(o *validate.SchemaValidatorOptions) {
	forIndex, forField := o.NewValidatorForIndex, o.NewValidatorForField
	o.NewValidatorForIndex = func(i int, schema *spec.Schema, root any, path string, formats strfmt.Registry,
		options ...validate.Option,
	) validate.ValueValidator {
		options = append(options, c.hook)
		if forIndex == nil {
			return collecting{validate.NewSchemaValidator(schema, root, path, formats, options...), c}
		}
		return collecting{forIndex(i, schema, root, path, formats, options...), c}
	}
	o.NewValidatorForField = func(name string, schema *spec.Schema, root any, path string, formats strfmt.Registry,
		options ...validate.Option,
	) validate.ValueValidator {
		options = append(options, c.hook)
		if forField == nil {
			return collecting{validate.NewSchemaValidator(schema, root, path, formats, options...), c}
		}
		return collecting{forField(name, schema, root, path, formats, options...), c}
	}
}

// collecting validates a part.
type collecting struct {
	validate.ValueValidator
	to *collector
}

// Validate validates the part. The result has one error for all.
func (v collecting) Validate(value any) *validate.Result {
	before := len(v.to.errs)
	of := v.ValueValidator.Validate(value)
	v.to.take(before, of)
	out := &validate.Result{MatchCount: of.MatchCount}
	if len(v.to.errs) > before {
		out.Errors = []error{errCollected}
	}
	return out
}

// take collects the errors of a value. Those of its parts are collected already, after the first
// ones. They are dropped if the result does not mention them: the value has not changed, and its
// errors are warnings.
func (c *collector) take(before int, of *validate.Result) {
	i := slices.Index(of.Errors, errCollected)
	if i < 0 {
		c.errs = append(c.errs[:before], of.Errors...)
		return
	}
	c.errs = slices.Insert(c.errs, before, of.Errors[:i]...)
	c.errs = append(c.errs, of.Errors[i+1:]...)
}

// all returns the result with all errors, without duplicates.
func (c *collector) all(of *validate.Result) *validate.Result {
	c.take(0, of)
	out := &validate.Result{}
	seen := make(map[string]bool, len(c.errs))
	for _, err := range c.errs {
		if msg := err.Error(); !seen[msg] {
			seen[msg] = true
			out.Errors = append(out.Errors, err)
		}
	}
	return out
}
