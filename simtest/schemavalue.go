package simtest

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

const (
	optionalMax = 3  // optional properties, and entries of lists and maps, that one value has more than it must
	deepest     = 6  // levels below which a value has only what is required
	triesMax    = 8  // draws of an entry that a list has already
	span        = 10 // width of the range of a number without a bound
)

var (
	words = []string{"a", "b", "c"}
	// quantities match all patterns of quantities, and are valid as resource.Quantity.
	quantities = []string{"1", "2", "100m", "1Gi", "2Gi", "512Mi"}
	// quantityPattern is that of controller-gen for resource.Quantity.
	quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
	intOrStrings    = []any{int64(1), int64(2), "25%", "50%"}

	// formats has valid strings of formats.
	//
	// Upstream: k8s.io/kube-openapi/pkg/validation/strfmt, and apiextensions-apiserver pkg/apiserver/validation supportedFormats.
	formats = map[string][]string{
		"date-time": {"2026-01-01T00:00:00Z", "2026-06-30T12:00:00Z"}, "datetime": {"2026-01-01T00:00:00Z", "2026-06-30T12:00:00Z"},
		"date": {"2026-01-01", "2026-06-30"}, "duration": {"1s", "1m", "1h"}, "byte": {"YQ==", "Yg=="},
		"uuid":  {"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"},
		"uuid3": {"11111111-1111-3111-8111-111111111111", "22222222-2222-3222-8222-222222222222"},
		"uuid4": {"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"},
		"uuid5": {"11111111-1111-5111-8111-111111111111", "22222222-2222-5222-8222-222222222222"},
		"ipv4":  {"192.0.2.1", "192.0.2.2"}, "ipv6": {"2001:db8::1", "2001:db8::2"}, "cidr": {"192.0.2.0/24", "198.51.100.0/24"},
		"mac": {"02:00:00:00:00:01", "02:00:00:00:00:02"}, "uri": {"https://a.example.com", "https://b.example.com"},
		"email": {"a@example.com", "b@example.com"}, "hostname": {"a.example.com", "b.example.com"},
		"hexcolor": {"#000000", "#ffffff"}, "rgbcolor": {"rgb(0,0,0)", "rgb(1,1,1)"},
		"isbn": {"0306406152", "9780306406157"}, "isbn10": {"0306406152"}, "isbn13": {"9780306406157"},
		"creditcard": {"4111111111111111"}, "ssn": {"111-11-1111"}, "bsonobjectid": {"507f1f77bcf86cd799439011"},
		"k8s-short-name": words, "k8s-long-name": {"a.b", "c.d"}, "password": words,
	}
)

// values draws values from schemas.
type values struct {
	rt  *rapid.T
	own map[string]func(*rapid.T) any // by path
}

// draw draws a value. path is that of the field, such as spec.ports[].name.
func (v values) draw(s *schema, path string, depth int) any {
	if own := v.own[path]; own != nil {
		return apiValue(path, own(v.rt))
	}
	s = v.resolve(s)
	if s.Nullable && depth > 0 && v.pick("null", 8) == 7 {
		return nil
	}
	if s.Default != nil && v.pick("default", 4) == 3 {
		return runtime.DeepCopyJSONValue(s.Default)
	}
	switch {
	case len(s.Enum) > 0:
		return rapid.SampledFrom(s.Enum).Draw(v.rt, path)
	case s.IntOrString:
		return v.intOrString(s, path)
	case s.Embedded || s.Type == "object":
		return v.object(s, path, depth)
	}
	switch s.Type {
	case "boolean":
		return rapid.Bool().Draw(v.rt, path)
	case "integer":
		return v.integer(s, path)
	case "number":
		return v.number(s, path)
	case "string":
		return v.text(s, path)
	case "array":
		return v.list(s, path, depth)
	default: // x-kubernetes-preserve-unknown-fields without a type
		return rapid.SampledFrom([]any{"a", int64(1), true}).Draw(v.rt, path)
	}
}

// pick draws one of n numbers.
func (v values) pick(label string, n int) int {
	if n <= 1 {
		return 0
	}
	return rapid.IntRange(0, n-1).Draw(v.rt, label)
}

// resolve returns a schema with all restrictions of allOf, and those of one branch of each anyOf and
// oneOf, which is drawn. For oneOf it leaves out what only the other branches require.
func (v values) resolve(s *schema) *schema {
	for len(s.AllOf) > 0 {
		all := s.AllOf
		next := *s
		next.AllOf = nil
		s = &next
		for _, o := range all {
			s = s.with(o)
		}
	}
	if s.IntOrString {
		return s // its anyOf are the two types
	}
	if branches := s.AnyOf; len(branches) > 0 {
		next := *s
		next.AnyOf = nil
		return v.resolve(next.with(branches[v.pick("anyOf", len(branches))]))
	}
	if branches := s.OneOf; len(branches) > 0 {
		next := *s
		next.OneOf = nil
		chosen := branches[v.pick("oneOf", len(branches))]
		one := next.with(chosen)
		for _, o := range branches {
			for _, name := range o.Required {
				if !slices.Contains(one.Required, name) {
					delete(one.Properties, name) // of a clone
				}
			}
		}
		return v.resolve(one)
	}
	return s
}

func (v values) intOrString(s *schema, path string) any {
	switch {
	case s.Pattern == nil:
		return rapid.SampledFrom(intOrStrings).Draw(v.rt, path)
	case isQuantity(*s.Pattern):
		return rapid.SampledFrom(quantities).Draw(v.rt, path)
	default:
		return v.text(s, path)
	}
}

// isQuantity reports whether a pattern admits quantities and hardly anything else.
func isQuantity(pattern string) bool {
	if pattern == quantityPattern {
		return true
	}
	r, err := regexp.Compile(pattern)
	if err != nil || r.MatchString("a") || r.MatchString("") {
		return false
	}
	return !slices.ContainsFunc(quantities, func(q string) bool { return !r.MatchString(q) })
}

// bounds returns the range of a number. A missing bound is span away from the other one, or from 0.
func (s *schema) bounds() (low, high float64) {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		low, high = *s.Minimum, *s.Maximum
	case s.Minimum != nil:
		low, high = *s.Minimum, *s.Minimum+span
	case s.Maximum != nil:
		low, high = min(0, *s.Maximum-span), *s.Maximum
	default:
		low, high = 0, span
	}
	if s.MultipleOf != nil {
		if s.Maximum == nil {
			high = low + *s.MultipleOf*span
		} else if s.Minimum == nil {
			low = min(0, high-*s.MultipleOf*span)
		}
	}
	return low, high
}

func (v values) integer(s *schema, path string) any {
	low, high := s.bounds()
	step := int64(1)
	if s.MultipleOf != nil {
		step = max(1, int64(*s.MultipleOf))
	}
	const most = 1 << 53 // beyond it not every integer is a float64
	low, high = max(low, -most), min(high, most)
	if s.Format == "int32" {
		low, high = max(low, math.MinInt32), min(high, math.MaxInt32)
	}
	from, to := int64(math.Ceil(low)), int64(math.Floor(high))
	if s.ExclusiveMinimum && float64(from) == low {
		from++
	}
	if s.ExclusiveMaximum && float64(to) == high {
		to--
	}
	from, to = ceilDiv(from, step), floorDiv(to, step)
	if from > to {
		return from * step // nothing is valid
	}
	return rapid.Int64Range(from, to).Draw(v.rt, path) * step
}

func floorDiv(a, b int64) int64 { return int64(math.Floor(float64(a) / float64(b))) }
func ceilDiv(a, b int64) int64  { return int64(math.Ceil(float64(a) / float64(b))) }

func (v values) number(s *schema, path string) any {
	low, high := s.bounds()
	if s.MultipleOf != nil {
		whole := *s
		unit := *s.MultipleOf
		lowest, highest := low/unit, high/unit
		one := 1.0
		whole.Minimum, whole.Maximum, whole.MultipleOf, whole.Format = &lowest, &highest, &one, ""
		return apiNumbers(float64(v.integer(&whole, path).(int64)) * unit)
	}
	const parts = 4
	from, to := 0, parts
	if s.ExclusiveMinimum {
		from++
	}
	if s.ExclusiveMaximum {
		to--
	}
	return apiNumbers(low + (high-low)*float64(rapid.IntRange(from, to).Draw(v.rt, path))/parts)
}

func (v values) text(s *schema, path string) string {
	fits := func(t string) bool {
		n := utf8.RuneCountInString(t)
		return (s.MinLength == nil || n >= *s.MinLength) && (s.MaxLength == nil || n <= *s.MaxLength)
	}
	if s.Pattern != nil {
		if r, err := regexp.Compile(*s.Pattern); err == nil {
			all := slices.Concat(formats[s.Format], words, quantities)
			fitting := slices.DeleteFunc(all, func(t string) bool { return !r.MatchString(t) || !fits(t) })
			if len(fitting) >= 2 && v.pick("plain", 2) == 0 {
				return rapid.SampledFrom(fitting).Draw(v.rt, path)
			}
			drawn := ""
			for range 3 { // few strings of a pattern have another length than the schema says
				drawn = rapid.StringMatching(*s.Pattern).Draw(v.rt, path)
				if fits(drawn) {
					return drawn
				}
			}
			if len(fitting) > 0 {
				return fitting[0]
			}
			return drawn
		}
	}
	if known := slices.DeleteFunc(slices.Clone(formats[s.Format]), func(t string) bool { return !fits(t) }); len(known) > 0 {
		return rapid.SampledFrom(known).Draw(v.rt, path)
	}
	candidates := slices.Clone(words)
	if s.MinLength != nil && *s.MinLength > 1 {
		for i, w := range candidates {
			candidates[i] = strings.Repeat(w, *s.MinLength)
		}
	}
	if s.MaxLength != nil && *s.MaxLength > 1 && *s.MaxLength <= 256 {
		candidates = append(candidates, strings.Repeat("z", *s.MaxLength))
	}
	if s.MinLength == nil || *s.MinLength == 0 {
		candidates = append(candidates, "")
	}
	return rapid.SampledFrom(slices.DeleteFunc(candidates, func(t string) bool { return !fits(t) && t != words[0] })).Draw(v.rt, path)
}

// size draws the number of entries of a list or map.
func (v values) size(least, most *int, depth int) int {
	low, high := 0, optionalMax
	if least != nil {
		low, high = *least, *least+optionalMax
	}
	if depth > deepest {
		high = low
	}
	if most != nil {
		high = min(high, max(low, *most))
	}
	return low + v.pick("size", high-low+1)
}

func (v values) list(s *schema, path string, depth int) any {
	list := []any{}
	if s.Items == nil {
		return list
	}
	n := v.size(s.MinItems, s.MaxItems, depth)
	for tries := 0; len(list) < n && tries < n+triesMax; tries++ {
		item := v.draw(s.Items, path+"[]", depth+1)
		if !s.has(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// has reports whether a list of a schema already has an item with the same key.
func (s *schema) has(list []any, item any) bool {
	if s.ListType != "set" && s.ListType != "map" && !s.UniqueItems {
		return false
	}
	return slices.ContainsFunc(list, func(other any) bool { return s.keyOf(other) == s.keyOf(item) })
}

// keyOf returns the key of an item of a list.
func (s *schema) keyOf(item any) string {
	fields, is := item.(map[string]any)
	if s.ListType != "map" || !is {
		return jsonText(item)
	}
	var key []any
	for _, name := range s.ListKeys {
		value := fields[name]
		if p := s.Items.Properties[name]; value == nil && p != nil {
			value = p.Default
		}
		key = append(key, value)
	}
	return jsonText(key)
}

func (v values) object(s *schema, path string, depth int) any {
	object := map[string]any{}
	if s.Embedded {
		object["apiVersion"], object["kind"] = "v1", "ConfigMap"
		object["metadata"] = map[string]any{"name": rapid.SampledFrom(words).Draw(v.rt, path+".metadata.name")}
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	var optional []string
	for _, name := range names {
		switch _, set := object[name]; {
		case set:
		case slices.Contains(s.Required, name):
			object[name] = v.draw(s.Properties[name], path+"."+escapeField(name), depth+1)
		default:
			optional = append(optional, name)
		}
	}
	least := 0
	if s.MinProperties != nil {
		least = *s.MinProperties - len(object)
	}
	if len(optional) > 0 && (depth <= deepest || least > 0) {
		low := min(max(0, least), len(optional))
		high := max(low, min(low+optionalMax, len(optional)))
		if s.MaxProperties != nil {
			high = max(low, min(high, *s.MaxProperties-len(object)))
		}
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(optional), low, high, rapid.ID[string]).Draw(v.rt, path)
		for _, name := range chosen {
			object[name] = v.draw(s.Properties[name], path+"."+escapeField(name), depth+1)
		}
	}
	if s.Values != nil {
		n := v.size(s.MinProperties, s.MaxProperties, depth)
		for i := range n {
			object[mapKey(i)] = v.draw(s.Values, path+".*", depth+1)
		}
	}
	if s.Preserve && len(s.Properties) == 0 && s.Values == nil && !s.Embedded && v.pick("unknown", 2) == 1 {
		object[words[0]] = rapid.SampledFrom(words).Draw(v.rt, path)
	}
	return object
}

// mapKey returns a key of a map.
func mapKey(i int) string {
	if i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("k%d", i)
}

// apiValue returns a value of a user's function as one of API objects.
func apiValue(path string, value any) any {
	normal, err := normalJSON(value)
	if err != nil {
		panic(fmt.Sprintf("simtest: value of %s: %v", path, err))
	}
	return normal
}
