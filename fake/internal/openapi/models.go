package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/apitypes"
)

// models are the definitions of types, in version 2 except for defaults.
type models struct {
	all          spec.Definitions
	marks        marks
	enums        enums
	descriptions map[string]string                  // of types, and of fields after a #, that SwaggerDoc lacks
	customKinds  map[schema.GroupVersionKind]string // names of the definitions of custom resources and their lists
}

// newModels returns the definitions of resources and of everything that they refer to.
func newModels(resources []fake.APIResource) *models {
	m := &models{
		all: spec.Definitions{}, marks: readMarks(), enums: read[enums](enumsJSON),
		descriptions: read[map[string]string](descriptionsJSON),
		customKinds:  map[schema.GroupVersionKind]string{},
	}
	for _, v := range []any{
		metav1.APIResourceList{},
		metav1.DeleteOptions{},
		metav1.ObjectMeta{},
		metav1.Patch{},
		metav1.Status{},
		metav1.WatchEvent{},
	} {
		m.ref(reflect.TypeOf(v))
	}
	for _, r := range resources {
		if r.Custom == nil {
			m.kind(gvkOf(r))
			m.kind(gvkOf(r).GroupVersion().WithKind(r.Kind + "List")) // a kind that cannot be listed has no list
		}
		for _, s := range r.Subresources {
			m.kind(schema.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind})
		}
	}
	for _, r := range resources { // last: they may refer to earlier definitions
		if r.Custom != nil {
			m.addCustom(r)
		}
	}
	return m
}

// kind returns a reference to the definition of a kind. A kind without a Go type is an arbitrary
// object.
func (m *models) kind(gvk schema.GroupVersionKind) *spec.Schema {
	if name, ok := m.customKinds[gvk]; ok {
		return spec.RefSchema(prefix + name)
	}
	obj, err := scheme.Scheme.New(gvk)
	if as := apitypes.Registered(gvk); err != nil && as != gvk {
		return m.shared(gvk, as)
	}
	if err != nil {
		return &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	}
	return m.ref(reflect.TypeOf(obj).Elem())
}

// shared returns a reference to the definition of a kind whose Go type is registered as another version of it only.
func (m *models) shared(gvk, as schema.GroupVersionKind) *spec.Schema {
	obj := must(scheme.Scheme.New(as))
	t := reflect.TypeOf(obj).Elem()
	name := strings.Replace(nameOf(t), "."+as.Version+".", "."+gvk.Version+".", 1)
	if _, exists := m.all[name]; !exists {
		s := m.define(name, t)
		s.AddExtension(kindsExtension, []any{kindExtension(gvk)})
		m.all[name] = s
	}
	return spec.RefSchema(prefix + name)
}

// prefix is the prefix of references to definitions.
const prefix = "#/definitions/"

// ref returns a reference to the definition of a struct, and adds the definition if it is missing.
func (m *models) ref(t reflect.Type) *spec.Schema {
	name := nameOf(t)
	if _, exists := m.all[name]; !exists {
		m.all[name] = spec.Schema{} // a type may contain itself
		m.all[name] = m.define(name, t)
	}
	return spec.RefSchema(prefix + name)
}

// nameOf returns the name of the definition of a type, such as io.k8s.api.core.v1.Pod.
func nameOf(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	return reverse(host) + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

// reverse reverses the labels of a domain name.
func reverse(domain string) string {
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

func (m *models) define(name string, t reflect.Type) spec.Schema {
	out := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Description: docOf(t)[""]}}
	if about, ok := m.descriptions[name]; ok {
		out.Description = about
	}
	if typed, ok := reflect.Zero(t).Interface().(wireTyped); ok {
		out.Type, out.Format = typed.OpenAPISchemaType(), typed.OpenAPISchemaFormat()
		return out
	}
	m.fields(name, t, &out)
	m.marks.ofStruct(name, &out)
	if kinds := kindsOf(t); len(kinds) > 0 {
		out.AddExtension(kindsExtension, kinds)
	}
	return out
}

// wireTyped is a struct that is encoded as a simpler type.
type wireTyped interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

// docOf returns the API documentation of a type, under "", and of its fields.
func docOf(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// fields adds the properties of a struct to a schema, including inlined structs.
func (m *models) fields(name string, t reflect.Type, out *spec.Schema) {
	doc := docOf(t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !f.IsExported():
			continue
		case tag == "" && f.Anonymous:
			m.fields(name, deref(f.Type), out)
			continue
		}
		omitEmpty := strings.Contains(options, "omitempty")
		p := m.property(f.Type)
		p.Description = doc[tag] + m.enums.list(f.Type)
		if about, ok := m.descriptions[name+"#"+tag]; ok {
			p.Description = about
		}
		p.Default = zeroOf(f.Type, omitEmpty)
		if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
			p.AddExtension("x-kubernetes-patch-strategy", strategy)
		}
		if key := f.Tag.Get("patchMergeKey"); key != "" {
			p.AddExtension("x-kubernetes-patch-merge-key", key)
		}
		m.marks.ofField(name, tag, &p)
		out.SetProperty(tag, p)
		if required(name, tag, omitEmpty) {
			out.Required = append(out.Required, tag)
		}
	}
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// property returns the schema of a value of a type.
func (m *models) property(t reflect.Type) spec.Schema {
	t = deref(t)
	simple := func(name, format string) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{name}, Format: format}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return simple("boolean", "")
	case reflect.Int, reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint16, reflect.Uint8, reflect.Uint32:
		return simple("integer", "int32")
	case reflect.Int64, reflect.Uint64, reflect.Uint:
		return simple("integer", "int64")
	case reflect.Float32, reflect.Float64:
		return simple("number", "double")
	case reflect.String:
		out := simple("string", "")
		for _, v := range m.enums.values(t) {
			out.Enum = append(out.Enum, v)
		}
		return out
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return simple("string", "byte")
		}
		return *spec.ArrayProperty(m.element(t.Elem()))
	case reflect.Map:
		return *spec.MapProperty(m.element(t.Elem()))
	case reflect.Struct:
		return *m.ref(t)
	default: // an interface: anything
		return spec.Schema{}
	}
}

func (m *models) element(t reflect.Type) *spec.Schema {
	out := m.property(t)
	out.Default = zeroOf(t, false)
	return &out
}

// zeroOf returns the default of a value that cannot be null, and nil for one that can.
//
// Upstream: k8s.io/kube-openapi/pkg/generators mustEnforceDefault.
func zeroOf(t reflect.Type, omitEmpty bool) any {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array, reflect.Interface:
		return nil
	case reflect.Struct:
		if t.NumField() == 1 && t.Field(0).Anonymous {
			return zeroOf(t.Field(0).Type, omitEmpty)
		}
		return map[string]any{}
	}
	switch {
	case omitEmpty:
		return nil
	case t.Kind() == reflect.Bool:
		return false
	case t.Kind() == reflect.String:
		return ""
	default:
		return 0
	}
}

// kindsOf returns the kinds of a type, sorted.
func kindsOf(t reflect.Type) []any {
	obj, ok := reflect.New(t).Interface().(runtime.Object)
	if !ok {
		return nil
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil
	}
	slices.SortFunc(gvks, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	var all []any
	for _, gvk := range gvks {
		if gvk.Version != runtime.APIVersionInternal {
			all = append(all, kindExtension(gvk))
		}
	}
	return all
}

// Extensions that are used more than once.
const (
	kindsExtension  = "x-kubernetes-group-version-kind"
	preserveUnknown = "x-kubernetes-preserve-unknown-fields"
)

// kindExtension returns a kind in the form of the extension.
func kindExtension(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}
