package simtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/internal/definitions"
)

// A schema is a structural schema of a definition: the parts of it that say which values are valid.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 JSONSchemaProps.
type schema struct {
	Type     string  `json:"type"`
	Format   string  `json:"format"`
	Nullable bool    `json:"nullable"`
	Enum     []any   `json:"enum"`
	Default  any     `json:"default"`
	Pattern  *string `json:"pattern"`

	Minimum          *float64 `json:"minimum"`
	Maximum          *float64 `json:"maximum"`
	ExclusiveMinimum bool     `json:"exclusiveMinimum"`
	ExclusiveMaximum bool     `json:"exclusiveMaximum"`
	MultipleOf       *float64 `json:"multipleOf"`
	MinLength        *int     `json:"minLength"`
	MaxLength        *int     `json:"maxLength"`
	MinItems         *int     `json:"minItems"`
	MaxItems         *int     `json:"maxItems"`
	UniqueItems      bool     `json:"uniqueItems"`
	MinProperties    *int     `json:"minProperties"`
	MaxProperties    *int     `json:"maxProperties"`

	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
	Values     *schema            `json:"-"` // of additionalProperties; nil: none
	Additional json.RawMessage    `json:"additionalProperties"`
	AllOf      []*schema          `json:"allOf"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`

	IntOrString bool     `json:"x-kubernetes-int-or-string"`
	Preserve    bool     `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded    bool     `json:"x-kubernetes-embedded-resource"`
	ListType    string   `json:"x-kubernetes-list-type"`
	ListKeys    []string `json:"x-kubernetes-list-map-keys"`
	Rules       []struct {
		Rule string `json:"rule"`
	} `json:"x-kubernetes-validations"`
}

// prepare reads additionalProperties, and makes numbers those of API objects, in a schema and below it.
func (s *schema) prepare() error {
	if text := bytes.TrimSpace(s.Additional); len(text) > 0 && text[0] == '{' {
		s.Values = &schema{}
		if err := json.Unmarshal(text, s.Values); err != nil {
			return err
		}
	}
	s.Default = apiNumbers(s.Default)
	for i := range s.Enum {
		s.Enum[i] = apiNumbers(s.Enum[i])
	}
	below := slices.Concat([]*schema{s.Items, s.Values}, s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.Properties)))
	for _, b := range below {
		if b != nil {
			if err := b.prepare(); err != nil {
				return err
			}
		}
	}
	return nil
}

// apiNumbers returns a JSON value in which whole numbers are int64, as in API objects.
func apiNumbers(value any) any {
	switch v := value.(type) {
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
	case map[string]any:
		for key := range v {
			v[key] = apiNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = apiNumbers(v[i])
		}
	}
	return value
}

// isImmutable reports whether a rule says that the value never changes.
func (s *schema) isImmutable() bool {
	for _, r := range s.Rules {
		if strings.Join(strings.Fields(r.Rule), "") == "self==oldSelf" {
			return true
		}
	}
	return false
}

// with returns a schema that is also restricted by another.
func (s *schema) with(o *schema) *schema {
	both := *s
	if both.Type == "" {
		both.Type = o.Type
	}
	if both.Format == "" {
		both.Format = o.Format
	}
	if o.Pattern != nil {
		both.Pattern = o.Pattern
	}
	if len(o.Enum) > 0 {
		both.Enum = o.Enum
		if len(s.Enum) > 0 {
			both.Enum = slices.DeleteFunc(slices.Clone(o.Enum), func(v any) bool {
				return !slices.ContainsFunc(s.Enum, func(have any) bool { return jsonText(have) == jsonText(v) })
			})
		}
	}
	if stricter(s.Minimum, o.Minimum, 1) {
		both.Minimum, both.ExclusiveMinimum = o.Minimum, o.ExclusiveMinimum
	}
	if stricter(s.Maximum, o.Maximum, -1) {
		both.Maximum, both.ExclusiveMaximum = o.Maximum, o.ExclusiveMaximum
	}
	if o.MultipleOf != nil {
		both.MultipleOf = o.MultipleOf
	}
	for _, bound := range []struct {
		have **int
		want *int
		sign int
	}{
		{&both.MinLength, o.MinLength, 1},
		{&both.MaxLength, o.MaxLength, -1},
		{&both.MinItems, o.MinItems, 1},
		{&both.MaxItems, o.MaxItems, -1},
		{&both.MinProperties, o.MinProperties, 1},
		{&both.MaxProperties, o.MaxProperties, -1},
	} {
		if stricter(*bound.have, bound.want, bound.sign) {
			*bound.have = bound.want
		}
	}
	for _, name := range o.Required {
		if !slices.Contains(both.Required, name) {
			both.Required = append(slices.Clip(both.Required), name)
		}
	}
	both.Properties = maps.Clone(s.Properties)
	for name, p := range o.Properties {
		if have := both.Properties[name]; have != nil {
			both.Properties[name] = have.with(p)
		}
	}
	if s.Items != nil && o.Items != nil {
		both.Items = s.Items.with(o.Items)
	}
	both.AllOf = append(slices.Clip(s.AllOf), o.AllOf...)
	both.AnyOf = append(slices.Clip(s.AnyOf), o.AnyOf...)
	both.OneOf = append(slices.Clip(s.OneOf), o.OneOf...)
	return &both
}

// stricter reports whether a bound is stricter than the one that a schema has. sign is 1 for lower
// bounds and -1 for upper ones.
func stricter[N int | float64](have, want *N, sign N) bool {
	return want != nil && (have == nil || *want*sign > *have*sign)
}

// jsonText returns a value as JSON.
func jsonText(value any) string {
	text, err := encode(value)
	if err != nil {
		panic(fmt.Sprintf("simtest: %v", err)) // values of API objects can be encoded
	}
	return text
}

// A resourceType is the custom resource whose objects are changed.
type resourceType struct {
	id         string // "widgets.example.com"
	plural     string
	namespaced bool
	kind       string
	apiVersion string
	text       string // the documents that define it
	spec       *schema
}

// A definitionDoc is what this package reads of a CustomResourceDefinition.
type definitionDoc struct {
	Kind string
	Spec struct {
		Group, Scope string
		Names        struct{ Plural, Kind string }
		Versions     []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema *schema `json:"openAPIV3Schema"`
			}
		}
	}
}

// readDefinition returns the resource of an object of documents, which a file or a directory of
// files defines, and that object. Of several objects it is the first one that is defined.
func readDefinition(path string, objects []*unstructured.Unstructured) (*resourceType, *unstructured.Unstructured, error) {
	text, err := readDocuments(path)
	if err != nil {
		return nil, nil, err
	}
	docs, err := splitDocuments(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	var defined []string
	for _, doc := range docs {
		var d definitionDoc
		if err := json.Unmarshal(doc, &d); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if d.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, v := range d.Spec.Versions {
			apiVersion := d.Spec.Group + "/" + v.Name
			defined = append(defined, apiVersion+" "+d.Spec.Names.Kind)
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
				return o.GetKind() == d.Spec.Names.Kind && o.GetAPIVersion() == apiVersion
			})
			if i < 0 {
				continue
			}
			root := v.Schema.OpenAPIV3Schema
			if root == nil || root.Properties["spec"] == nil {
				return nil, nil, fmt.Errorf("%s: the schema of %s %s has no spec", path, apiVersion, d.Spec.Names.Kind)
			}
			if err := root.prepare(); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			return &resourceType{
				id: d.Spec.Names.Plural + "." + d.Spec.Group, plural: d.Spec.Names.Plural, namespaced: d.Spec.Scope != "Cluster",
				kind: d.Spec.Names.Kind, apiVersion: apiVersion, text: text, spec: root.Properties["spec"],
			}, objects[i], nil
		}
	}
	return nil, nil, fmt.Errorf("%s: no definition of an object to change (has %s)", path, strings.Join(defined, ", "))
}

// readDocuments returns the text of a file, or of the YAML and JSON files of a directory, by name.
func readDocuments(path string) (string, error) {
	files, err := definitions.Files(path)
	if err != nil {
		return "", err
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "\n---\n"), nil
}

// isFileName reports whether a text is the name of a file of YAML or JSON, not a manifest itself.
func isFileName(text string) bool {
	return !strings.ContainsAny(text, " \n{") && definitions.IsFile(text)
}

// splitDocuments returns the documents of a text as JSON, without empty ones.
func splitDocuments(text string) ([][]byte, error) {
	var docs [][]byte
	d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)+1)
	for {
		var raw runtime.RawExtension
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		doc, err := yaml.YAMLToJSON(raw.Raw)
		if err != nil {
			return nil, err
		}
		if string(doc) != "null" && len(raw.Raw) > 0 {
			docs = append(docs, doc)
		}
	}
}

// readObjects returns the objects of a manifest.
func readObjects(text string) ([]*unstructured.Unstructured, error) {
	docs, err := splitDocuments(text)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, doc := range docs {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(doc); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}
