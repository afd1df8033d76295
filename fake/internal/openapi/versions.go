package openapi

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// buildV2 returns the document of all group versions.
func (d *Document) buildV2() *spec.Swagger {
	m := d.models()
	out := d.swagger(m, d.all()...)
	out.Definitions = make(spec.Definitions, len(m.all))
	simplify := schemamutation.Walker{SchemaCallback: simplifyV2, RefCallback: schemamutation.RefCallbackNoop}
	for name, s := range m.all {
		out.Definitions[name] = *simplify.WalkSchema(&s)
	}
	return out
}

// simplifyV2 removes from a schema what version 2 cannot express, and what kubectl cannot handle.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2 ToStructuralOpenAPIV2.
func simplifyV2(s *spec.Schema) *spec.Schema {
	out := *s
	out.Default, out.Nullable = nil, false
	out.AllOf, out.AnyOf, out.OneOf, out.Not = nil, nil, nil, nil
	unknown, _ := s.Extensions.GetBool(preserveUnknown)
	if s.Nullable {
		out.Type = nil
	}
	if s.Nullable || unknown {
		out.Items, out.Properties, out.Required = nil, nil, nil
	}
	if unknown && s.Type.Contains("object") || out.Items == nil && s.Type.Contains("array") {
		out.Type = nil
	}
	if _, kind := s.Extensions[kindsExtension]; unknown && kind {
		out.Type = s.Type
		out.VendorExtensible = spec.VendorExtensible{Extensions: spec.Extensions{kindsExtension: s.Extensions[kindsExtension]}}
	}
	if len(out.Required) > 0 {
		out.Required = slices.DeleteFunc(slices.Clone(out.Required),
			func(name string) bool { return s.Properties[name].Nullable })
	}
	return &out
}

// buildV3 returns the document of a group version.
func (d *Document) buildV3(path string) *spec3.OpenAPI {
	m := d.models()
	out := d.swagger(m, path)
	out.Definitions = m.referenced(out)
	v3 := openapiconv.ConvertV2ToV3(out)
	if r := d.groups[path][0]; r.Custom == nil {
		narrow(v3.Components.Schemas, r)
	}
	for name, types := range oneOf {
		if s := v3.Components.Schemas[name]; s != nil {
			s.Type = nil
			for _, t := range types {
				s.OneOf = append(s.OneOf, spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{t}}})
			}
		}
	}
	return v3
}

// narrow removes the kinds of other groups and versions from shared types, such as DeleteOptions.
func narrow(defined map[string]*spec.Schema, served fake.APIResource) {
	for name, s := range defined {
		kinds, _ := s.Extensions[kindsExtension].([]any)
		if len(kinds) < 2 || !strings.HasPrefix(name, metaPrefix) {
			continue
		}
		s.Extensions = maps.Clone(s.Extensions)
		s.Extensions[kindsExtension] = slices.DeleteFunc(slices.Clone(kinds), func(k any) bool {
			gvk := k.(map[string]any)
			return gvk["group"] != "" && (gvk["group"] != served.Group || gvk["version"] != served.Version)
		})
	}
}

// metaPrefix is the prefix of the definitions of shared types.
const metaPrefix = "io.k8s.apimachinery.pkg.apis.meta.v1."

// oneOf lists the definitions with alternative types.
var oneOf = map[string][]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":   {"string", "number"},
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"integer", "string"},
}

// referenced returns the definitions that the paths of a document refer to, directly or indirectly.
func (m *models) referenced(doc *spec.Swagger) spec.Definitions {
	found := spec.Definitions{}
	var todo []string
	walk := schemamutation.Walker{
		SchemaCallback: schemamutation.SchemaCallBackNoop,
		RefCallback: func(ref *spec.Ref) *spec.Ref {
			if name, ok := strings.CutPrefix(ref.String(), prefix); ok {
				todo = append(todo, name)
			}
			return ref
		},
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Paths)) {
		walk.WalkRoot(&spec.Swagger{SwaggerProps: spec.SwaggerProps{Paths: &spec.Paths{Paths: map[string]spec.PathItem{path: doc.Paths.Paths[path]}}}})
	}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if _, seen := found[name]; seen {
			continue
		}
		s := m.all[name]
		found[name] = s
		walk.WalkSchema(&s)
	}
	return found
}
