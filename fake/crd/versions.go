package crd

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file calls the functions of apiextensions-apiserver that take a context in later versions.

func validateStatusUpdate(definition, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	switch validate := any(validation.ValidateUpdateCustomResourceDefinitionStatus).(type) {
	case func(definition, old *apiextensions.CustomResourceDefinition) field.ErrorList: // up to 0.36
		return validate(definition, old)
	case func(ctx context.Context, definition, old *apiextensions.CustomResourceDefinition) field.ErrorList:
		return validate(context.Background(), definition, old)
	default:
		panic("crd: this version of k8s.io/apiextensions-apiserver is not supported")
	}
}

// validateMetadata validates the metadata of embedded objects.
func validateMetadata(content map[string]any, schema *structuralschema.Structural) field.ErrorList {
	switch validate := any(objectmeta.Validate).(type) {
	case func(path *field.Path, obj any, schema *structuralschema.Structural, root bool) field.ErrorList: // up to 0.36
		return validate(nil, content, schema, false)
	case func(
		ctx context.Context, path *field.Path, obj any, schema *structuralschema.Structural, root bool,
	) field.ErrorList:
		return validate(context.Background(), nil, content, schema, false)
	default:
		panic("crd: this version of k8s.io/apiextensions-apiserver is not supported")
	}
}
