package openapi

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// conventions is the page that descriptions of metadata point to.
const conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"

// addCustom adds the definitions of a custom resource and of its list.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder buildKubeNative, buildListSchema.
func (m *models) addCustom(r fake.APIResource) {
	gvk := gvkOf(r)
	name := reverse(r.Group) + "." + r.Version + "." + r.Kind
	m.customs[gvk] = name
	m.all[name] = m.custom(r)

	listKind := r.Custom.ListKind
	if listKind == "" {
		listKind = r.Kind + "List"
	}
	list := m.object(reflect.TypeFor[metav1.ListMeta](), "Standard list metadata. More info: "+conventions+"#types-kinds", gvk.GroupVersion().WithKind(listKind))
	list.Description = listKind + " is a list of " + r.Kind
	items := spec.ArrayProperty(spec.RefSchema(prefix + name))
	items.Description = "List of " + r.Name + ". More info: " + conventions
	list.SetProperty("items", *items)
	list.Required = []string{"items"}
	listName := reverse(r.Group) + "." + r.Version + "." + listKind
	m.customs[gvk.GroupVersion().WithKind(r.Kind+"List")] = listName
	m.all[listName] = list
}

// custom is the definition of a custom resource: its own schema, with what all objects have.
func (m *models) custom(r fake.APIResource) spec.Schema {
	out := m.object(reflect.TypeFor[metav1.ObjectMeta](), "Standard object's metadata. More info: "+conventions+"#metadata", gvkOf(r))
	var own *spec.Schema
	if r.Custom.Schema != nil {
		own = r.Custom.Schema(r.Version)
	}
	if own == nil {
		out.AddExtension(preserveUnknown, true)
		return out
	}
	walk := schemamutation.Walker{SchemaCallback: m.embed, RefCallback: schemamutation.RefCallbackNoop}
	own = walk.WalkSchema(own)
	given := out
	out = *own
	out.Properties = maps.Clone(own.Properties)
	if out.Properties == nil {
		out.Properties = given.Properties
	}
	maps.Copy(out.Properties, given.Properties)
	out.VendorExtensible = spec.VendorExtensible{Extensions: maps.Clone(own.Extensions)}
	out.AddExtension(kindsExtension, []any{kindExtension(gvkOf(r))})
	return out
}

// embed adds to a schema within another what an object has, if it is that of one.
func (m *models) embed(s *spec.Schema) *spec.Schema {
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !embedded {
		return s
	}
	out := *s
	out.Properties = maps.Clone(s.Properties)
	text := func(about string) spec.Schema { return *spec.StringProperty().WithDescription(about) }
	metadata := m.ref(reflect.TypeFor[metav1.ObjectMeta]())
	metadata.Description = "Standard object's metadata. More info: " + conventions + "#metadata"
	out.SetProperty("metadata", *metadata)
	out.SetProperty("apiVersion", text("apiVersion defines the versioned schema of this representation of an object. More info: "+conventions+"#resources"))
	out.SetProperty("kind", text("kind is a string value representing the type of this object. In CamelCase. More info: "+conventions+"#types-kinds"))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(out.Required, name) {
			out.Required = append(slices.Clip(out.Required), name)
		}
	}
	return &out
}

// object is the definition of something that has apiVersion, kind and metadata.
func (m *models) object(meta reflect.Type, about string, gvk schema.GroupVersionKind) spec.Schema {
	doc := docOf(reflect.TypeFor[metav1.TypeMeta]())
	metadata := m.ref(meta)
	metadata.Description = about
	out := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	out.SetProperty("apiVersion", *spec.StringProperty().WithDescription(doc["apiVersion"]))
	out.SetProperty("kind", *spec.StringProperty().WithDescription(doc["kind"]))
	out.SetProperty("metadata", *metadata)
	out.AddExtension(kindsExtension, []any{kindExtension(gvk)})
	return out
}
