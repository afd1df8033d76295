package crd_test

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake/crd"
)

var names = []string{"a", "b", "c"}

// drawSchema draws a schema of few levels.
func drawSchema(t *rapid.T, levels int) apiextensions.JSONSchemaProps {
	kinds := []string{"integer", "string", "number", "either"}
	if levels > 0 {
		kinds = append(kinds, "object", "object", "map", "array", "array")
	}
	s := apiextensions.JSONSchemaProps{Nullable: rapid.IntRange(0, 4).Draw(t, "nullable") == 0}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	s.Type = kind
	switch kind {
	case "integer", "number":
		s.Maximum = ptr.To(1.0)
	case "string":
		s.MaxLength, s.Pattern = ptr.To(int64(1)), "^x"
		if rapid.Bool().Draw(t, "enum") {
			s.Enum = []apiextensions.JSON{"x", "y"}
		}
	case "either":
		s.Type, s.XIntOrString = "", true
		s.AnyOf = []apiextensions.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}
	case "object":
		s.Properties = map[string]apiextensions.JSONSchemaProps{}
		for _, name := range names[:2] {
			s.Properties[name] = drawSchema(t, levels-1)
		}
		s.Required = []string{"b"}
		if rapid.Bool().Draw(t, "not") {
			s.Not = &apiextensions.JSONSchemaProps{Required: []string{"a"}}
		}
	case "map":
		s.Type, s.MaxProperties = "object", ptr.To(int64(2))
		sub := drawSchema(t, levels-1)
		s.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &sub}
	case "array":
		sub := drawSchema(t, levels-1)
		s.Items, s.MaxItems = &apiextensions.JSONSchemaPropsOrArray{Schema: &sub}, ptr.To(int64(2))
		if sub.Type == "object" && sub.AdditionalProperties == nil && rapid.Bool().Draw(t, "by key") {
			s.XListType, s.XListMapKeys = ptr.To("map"), []string{"a"}
		}
	}
	return s
}

// drawValue draws a value, which often has the type of the schema.
func drawValue(t *rapid.T, s *apiextensions.JSONSchemaProps, levels int) any {
	kind := s.Type
	if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
		kind = rapid.SampledFrom([]string{"integer", "string", "number", "null", "object", "array"}).Draw(t, "kind")
	}
	if levels == 0 && (kind == "object" || kind == "array") {
		kind = "string"
	}
	child := func(of *apiextensions.JSONSchemaProps) any {
		if of == nil {
			of = &apiextensions.JSONSchemaProps{}
		}
		return drawValue(t, of, levels-1)
	}
	switch kind {
	case "integer":
		return rapid.Int64Range(0, 2).Draw(t, "int")
	case "number":
		return rapid.SampledFrom([]float64{0.5, 1.5}).Draw(t, "float")
	case "string":
		return rapid.SampledFrom([]string{"x", "xx", "y"}).Draw(t, "string")
	case "object":
		value := map[string]any{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "names") {
			var of *apiextensions.JSONSchemaProps
			if p, ok := s.Properties[name]; ok {
				of = &p
			} else if s.AdditionalProperties != nil {
				of = s.AdditionalProperties.Schema
			}
			value[name] = child(of)
		}
		return value
	case "array":
		var value []any
		for range rapid.IntRange(0, 3).Draw(t, "size") {
			var of *apiextensions.JSONSchemaProps
			if s.Items != nil {
				of = s.Items.Schema
			}
			value = append(value, child(of))
		}
		return value
	}
	return nil
}

// The errors are those of upstream's validator, also of objects that have changed in part.
func TestCollectedErrorsAreUpstreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		props := apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{}}
		old, obj := map[string]any{}, map[string]any{}
		for _, name := range names {
			s := drawSchema(t, 3)
			props.Properties[name] = s
			old[name] = drawValue(t, &s, 3)
			obj[name] = old[name]
			if rapid.Bool().Draw(t, "changed") {
				obj[name] = drawValue(t, &s, 3)
			}
		}
		upstream, spec, err := validation.NewSchemaValidator(&props)
		if err != nil {
			t.Fatal(err)
		}
		structural, err := schema.NewStructural(&props)
		if err != nil {
			t.Skip(err)
		}
		ours := crd.NewSchemaValidator(spec)
		if w, g := words(validation.ValidateCustomResource(nil, obj, upstream)), words(validation.ValidateCustomResource(nil, obj, ours)); w != g {
			t.Fatalf("create: got\n%s\nwant\n%s", g, w)
		}
		ratcheting := func() validation.ValidationOption {
			return validation.WithRatcheting(common.NewCorrelatedObject(obj, old, &model.Structural{Structural: structural}))
		}
		w := words(validation.ValidateCustomResourceUpdate(nil, obj, old, upstream, ratcheting()))
		g := words(validation.ValidateCustomResourceUpdate(nil, obj, old, ours, ratcheting()))
		if w != g {
			t.Fatalf("update: got\n%s\nwant\n%s", g, w)
		}
	})
}

func words(errs field.ErrorList) string {
	lines := make([]string, len(errs))
	for i, err := range crd.ByPath(errs) {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}
