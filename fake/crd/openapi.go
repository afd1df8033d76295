package crd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const (
	refPrefix = "#/components/schemas/"

	gvkExtension    = "x-kubernetes-group-version-kind"
	fieldsExtension = "x-kubernetes-selectable-fields"

	metadataDoc   = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
	apiVersionDoc = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
	kindDoc       = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)

// models returns the schemas of the types of the API machinery and of definitions, by name. They
// are read-only.
var models = sync.OnceValue(func() map[string]*spec.Schema {
	all := map[string]*spec.Schema{}
	defs := generated.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef(refPrefix + common.EscapeJsonPointer(name))
	})
	for name, def := range defs {
		s := def.Schema
		all[name] = &s
	}
	name := apiextensionsv1.CustomResourceDefinition{}.OpenAPIModelName()
	root := *all[name]
	root.VendorExtensible = spec.VendorExtensible{}
	root.AddExtension(gvkExtension, gvkOf(group, "v1", "CustomResourceDefinition"))
	all[name] = &root
	return all
})

func gvkOf(group, version, kind string) []any {
	return []any{map[string]any{"group": group, "version": version, "kind": kind}}
}

// schemaOfDefinitions returns the schema of definitions.
//
// Differs: it refers to ObjectMeta only. Schemas within schemas allow anything; upstream's refer to
// themselves.
var schemaOfDefinitions = sync.OnceValue(func() *spec.Schema {
	out := inlined(models()[apiextensionsv1.CustomResourceDefinition{}.OpenAPIModelName()], nil)
	out.SetProperty("metadata", *refToMeta())
	return &out
})

// inlined replaces the references in a schema by what they refer to. A recursive reference becomes
// an arbitrary object.
func inlined(s *spec.Schema, within []string) spec.Schema {
	out := *s
	if ref := s.Ref.String(); ref != "" {
		name := strings.TrimPrefix(ref, refPrefix)
		if slices.Contains(within, name) {
			out = spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Description: s.Description}}
			out.AddExtension("x-kubernetes-preserve-unknown-fields", true)
			return out
		}
		out = inlined(models()[name], append(slices.Clip(within), name))
		if s.Description != "" {
			out.Description = s.Description
		}
		return out
	}
	out.Properties = make(map[string]spec.Schema, len(s.Properties))
	for name, p := range s.Properties {
		out.Properties[name] = inlined(&p, within)
	}
	if s.Items != nil && s.Items.Schema != nil {
		item := inlined(s.Items.Schema, within)
		out.Items = &spec.SchemaOrArray{Schema: &item}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		each := inlined(s.AdditionalProperties.Schema, within)
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &each}
	}
	return out
}

// typesOfDefinitions returns the types by which definitions are merged.
func typesOfDefinitions() managedfields.TypeConverter {
	return lazyTypes(sync.OnceValue(func() managedfields.TypeConverter { return converter(models()) }))
}

// metaModels returns the models that ObjectMeta consists of.
var metaModels = sync.OnceValue(func() map[string]*spec.Schema {
	found := map[string]*spec.Schema{}
	todo := []string{metav1.ObjectMeta{}.OpenAPIModelName()}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if found[name] != nil {
			continue
		}
		found[name] = models()[name]
		schemamutation.ReplaceReferences(func(ref *spec.Ref) *spec.Ref {
			if name, ok := strings.CutPrefix(ref.String(), refPrefix); ok {
				todo = append(todo, name)
			}
			return ref
		}, &spec.Swagger{SwaggerProps: spec.SwaggerProps{Definitions: spec.Definitions{name: *found[name]}}})
	}
	return found
})

// typesOf returns the types by which the objects of a resource are merged.
func typesOf(versions map[string]*version) managedfields.TypeConverter {
	return lazyTypes(sync.OnceValue(func() managedfields.TypeConverter {
		all := maps.Clone(metaModels())
		for _, v := range versions {
			all[modelName(v)] = v.openapi
		}
		return converter(all)
	}))
}

// lazyTypes is a type converter that is made at its first use.
type lazyTypes func() managedfields.TypeConverter

// ObjectToTyped converts an object to a typed value.
func (t lazyTypes) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return t().ObjectToTyped(obj, opts...)
}

// TypedToObject converts a typed value to an object.
func (t lazyTypes) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return t().TypedToObject(value)
}

func converter(all map[string]*spec.Schema) managedfields.TypeConverter {
	out, err := managedfields.NewTypeConverter(all, false)
	if err != nil {
		panic(fmt.Sprintf("crd: build types of valid schemas: %v", err))
	}
	return out
}

func modelName(v *version) string {
	parts := strings.Split(v.group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + v.name + "." + v.kind
}

// openAPIOf returns the published schema of a version, with the fields that every object has.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder buildKubeNative.
func openAPIOf(v *version, selectable []apiextensionsv1.SelectableField) *spec.Schema {
	out := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	if v.schema != nil {
		out = v.schema.Unfold().ToKubeOpenAPI()
		out.SetProperty("metadata", *refToMeta())
		addTypeMeta(out)
		addEmbedded(out)
	}
	out.AddExtension(gvkExtension, gvkOf(v.group, v.name, v.kind))
	if len(selectable) > 0 {
		paths := make([]any, len(selectable))
		for i, f := range selectable {
			paths[i] = map[string]any{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")}
		}
		out.AddExtension(fieldsExtension, paths)
	}
	return out
}

// refToMeta returns a schema that refers to ObjectMeta. A reference cannot have a description,
// hence allOf.
func refToMeta() *spec.Schema {
	ref := spec.RefSchema(refPrefix + metav1.ObjectMeta{}.OpenAPIModelName())
	return (&spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{*ref}}}).WithDescription(metadataDoc)
}

func addTypeMeta(s *spec.Schema) {
	of := models()[metav1.TypeMeta{}.OpenAPIModelName()]
	s.SetProperty("apiVersion", of.Properties["apiVersion"])
	s.SetProperty("kind", of.Properties["kind"])
}

// addEmbedded adds the standard fields to embedded objects.
func addEmbedded(s *spec.Schema) {
	if s == nil {
		return
	}
	for name, p := range s.Properties {
		addEmbedded(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		addEmbedded(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		addEmbedded(s.AdditionalProperties.Schema)
	}
	if embedded, ok := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !ok || !embedded {
		return
	}
	for name, doc := range map[string]string{"apiVersion": apiVersionDoc, "kind": kindDoc} {
		s.SetProperty(name, *spec.StringProperty().WithDescription(doc))
	}
	s.SetProperty("metadata", *refToMeta())
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}
