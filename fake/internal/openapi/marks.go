package openapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// marks are the merge rules and defaults of types, which are markers in their source comments.
type marks map[string]schema.TypeDef

// readMarks reads the marks from the schema of client-go's apply configurations.
func readMarks() marks {
	typed := must(applyconfigurations.NewTypeConverter(scheme.Scheme).ObjectToTyped(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
	}))
	out := marks{}
	for _, t := range typed.Schema().Types {
		out[t.Name] = t
	}
	return out
}

// defaultOverrides are defaults of fields of types without marks.
var defaultOverrides = map[string]any{"io.k8s.api.autoscaling.v1.ScaleSpec.replicas": 0}

// ofStruct adds the marks of a type to its definition.
func (m marks) ofStruct(name string, out *spec.Schema) {
	t, ok := m[name]
	if !ok || t.Map == nil {
		return
	}
	if t.Map.ElementRelationship == schema.Atomic {
		out.AddExtension("x-kubernetes-map-type", "atomic")
	}
	var unions []any
	for _, u := range t.Map.Unions {
		fields := map[string]any{}
		for _, f := range u.Fields {
			fields[f.FieldName] = f.DiscriminatorValue
		}
		union := map[string]any{"fields-to-discriminateBy": fields}
		if u.Discriminator != nil {
			union["discriminator"] = *u.Discriminator
		}
		unions = append(unions, union)
	}
	if unions != nil {
		out.AddExtension("x-kubernetes-unions", unions)
	}
}

// mapTypes are the values of x-kubernetes-map-type.
var mapTypes = map[schema.ElementRelationship]string{schema.Atomic: "atomic", schema.Separable: "granular"}

// ofField adds the marks of a field, and overwrites its default.
func (m marks) ofField(name, field string, out *spec.Schema) {
	if value, ok := defaultOverrides[name+"."+field]; ok {
		out.Default = value
	}
	t, ok := m[name]
	if !ok && out.Type.Contains("array") && field != "items" && name+"."+field != metaPrefix+"APIResource.verbs" {
		// types that are never applied have atomic lists only, except these
		out.AddExtension("x-kubernetes-list-type", "atomic")
	}
	if !ok || t.Map == nil {
		return
	}
	f, ok := t.Map.FindField(field)
	if !ok {
		return
	}
	if f.Default != nil {
		out.Default = f.Default
	}
	switch fieldType := f.Type; {
	case fieldType.ElementRelationship != nil:
		out.AddExtension("x-kubernetes-map-type", mapTypes[*fieldType.ElementRelationship])
	case fieldType.Inlined.Map != nil && fieldType.Inlined.Map.ElementRelationship != "":
		out.AddExtension("x-kubernetes-map-type", mapTypes[fieldType.Inlined.Map.ElementRelationship])
	case fieldType.Inlined.List == nil:
	case fieldType.Inlined.List.ElementRelationship == schema.Atomic:
		out.AddExtension("x-kubernetes-list-type", "atomic")
	case len(fieldType.Inlined.List.Keys) > 0:
		keys := make([]any, len(fieldType.Inlined.List.Keys))
		for i, k := range fieldType.Inlined.List.Keys {
			keys[i] = k
		}
		out.AddExtension("x-kubernetes-list-map-keys", keys)
		out.AddExtension("x-kubernetes-list-type", "map")
	default:
		out.AddExtension("x-kubernetes-list-type", "set")
	}
}
