package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Definitions is definitionsResource, for external tests.
const Definitions = definitionsResource

// NewSchemaValidator returns a schemaValidator, for external tests.
func NewSchemaValidator(s *spec.Schema) validation.SchemaValidator { return schemaValidator{s} }

// ByPath is byPath, for external tests.
var ByPath = byPath
