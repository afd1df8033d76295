package openapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// conventions is the URL to which descriptions of metadata refer.
const conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"

// addCustom adds the definitions of a custom resource and of its list.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder buildKubeNative,
// buildListSchema.
func (m *models) addCustom(r fake.APIResource) {
	gvk := gvkOf(r)
	name := customName(r)
	m.customKinds[gvk] = name
	m.all[name] = m.custom(r)

	listKind := r.Custom.ListKind
	if listKind == "" {
		listKind = r.Kind + "List"
	}
	list := m.object(reflect.TypeFor[metav1.ListMeta](),
		"Standard list metadata. More info: "+conventions+"#types-kinds", gvk.GroupVersion().WithKind(listKind))
	list.Description = listKind + " is a list of " + r.Kind
	items := spec.ArrayProperty(spec.RefSchema(prefix + name))
	items.Description = "List of " + r.Name + ". More info: " + conventions
	list.SetProperty("items", *items)
	list.Required = []string{"items"}
	listName := strings.TrimSuffix(name, r.Kind) + listKind
	m.customKinds[gvk.GroupVersion().WithKind(r.Kind+"List")] = listName
	m.all[listName] = list
}

// customName returns the name of the definition of a custom resource: that of its model, if it has
// one.
func customName(r fake.APIResource) string {
	if r.Custom.Models != nil {
		given, kinds := r.Custom.Models(), []any{kindExtension(gvkOf(r))}
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if equality.Semantic.DeepEqual(given[name].Extensions[kindsExtension], kinds) {
				return name
			}
		}
	}
	return reverse(r.Group) + "." + r.Version + "." + r.Kind
}

// custom returns the definition of a custom resource: its schema with the standard fields.
func (m *models) custom(r fake.APIResource) spec.Schema {
	out := m.object(reflect.TypeFor[metav1.ObjectMeta](),
		"Standard object's metadata. More info: "+conventions+"#metadata", gvkOf(r))
	var own *spec.Schema
	if r.Custom.Schema != nil {
		own = r.Custom.Schema(r.Version)
	}
	if own == nil {
		out.AddExtension(preserveUnknown, true)
		return out
	}
	own = m.resolve(own, r.Custom.Models)
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

// resolve redirects the references of a schema to this document, and adds missing definitions.
func (m *models) resolve(s *spec.Schema, given func() map[string]*spec.Schema) *spec.Schema {
	var walk schemamutation.Walker
	walk = schemamutation.Walker{
		SchemaCallback: schemamutation.SchemaCallBackNoop,
		RefCallback: func(ref *spec.Ref) *spec.Ref {
			text := ref.String()
			if text == "" {
				return ref
			}
			name := text[strings.LastIndexByte(text, '/')+1:]
			if _, known := m.all[name]; !known {
				var found *spec.Schema
				if given != nil {
					found = given()[name]
				}
				if found == nil {
					found = &spec.Schema{} // anything
				}
				m.all[name] = *found // before the walk, since it may refer to itself
				m.all[name] = *walk.WalkSchema(found)
			}
			out := spec.MustCreateRef(prefix + name)
			return &out
		},
	}
	return walk.WalkSchema(s)
}

// object returns a definition with apiVersion, kind and metadata.
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
