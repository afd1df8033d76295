package simtest

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// A field is one that changes may concern. Steps through lists and maps concern one of their
// entries.
type field struct {
	path  string // "spec.ports[].name", "spec.labels.*"
	steps []fieldStep
}

// A fieldStep leads from a value to one within it.
type fieldStep struct {
	kind     stepKind
	name     string // of a property
	path     string // of the value that it leads to
	schema   *schema
	required bool
}

type stepKind int

const (
	toProperty stepKind = iota
	toItem              // of a list
	toValue             // of a map
)

// levelsMax bounds the levels of fields that are changed on their own.
const levelsMax = 10

// fieldsOf returns the fields of an object, in groups: the fields of each of the given paths, or of
// each property of the spec. Immutable fields are left out, and what is within fields with values of
// the user's own. unknown are the paths that the schema does not have.
func fieldsOf(spec *schema, paths []string, own map[string]func(*rapid.T) any) (groups [][]field, unknown []string) {
	var all []field
	var walk func(s *schema, path string, steps []fieldStep)
	walk = func(s *schema, path string, steps []fieldStep) {
		if s.isImmutable() {
			return
		}
		all = append(all, field{path, steps})
		if own[path] != nil || len(steps) > levelsMax {
			return
		}
		to := func(kind stepKind, name, path string, s *schema, required bool) {
			walk(s, path, append(slices.Clip(steps), fieldStep{kind, name, path, s, required}))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			to(toProperty, name, path+"."+escapeField(name), s.Properties[name], slices.Contains(s.Required, name))
		}
		if s.Items != nil {
			to(toItem, "", path+"[]", s.Items, false)
		}
		if s.Values != nil {
			to(toValue, "", path+".*", s.Values, false)
		}
	}
	walk(spec, specField, []fieldStep{{toProperty, specField, specField, spec, true}})
	if len(paths) == 0 {
		for _, f := range all {
			if len(f.steps) == 2 {
				paths = append(paths, f.path)
			}
		}
	}
	for _, path := range paths {
		var group []field
		for _, f := range all {
			if f.path == path || strings.HasPrefix(f.path, path+".") || strings.HasPrefix(f.path, path+"[") {
				group = append(group, f)
			}
		}
		if len(group) == 0 {
			unknown = append(unknown, path)
			continue
		}
		slices.SortStableFunc(group, func(a, b field) int { return len(a.steps) - len(b.steps) })
		groups = append(groups, group)
	}
	return groups, unknown
}

// specField is the field that is changed.
const specField = "spec"

// escapeField returns the name of a field in a path.
func escapeField(name string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`, "[", `\[`, "]", `\]`).Replace(name)
}

// kinds are those of changes. rapid shrinks to the first. Of two reverts one concerns a field.
var kinds = []string{"set", "set", "set", "remove", "add", "add", "drop", "drop", "back", "revert"}

// A changer draws changes of a content from groups of fields.
type changer struct {
	groups  [][]field
	own     map[string]func(*rapid.T) any
	history []map[string]any // contents that were accepted; the last is the present one
}

// next draws a change and returns the content after it. A change that does not fit the content, such
// as the removal of a required field, sets the field instead.
func (c *changer) next(rt *rapid.T) map[string]any {
	v := values{rt, c.own}
	kind := rapid.SampledFrom(kinds).Draw(rt, "change")
	if kind == "revert" {
		return c.former(v, len(c.history))
	}
	group := c.groups[v.pick("group", len(c.groups))]
	f := group[v.pick("field", len(group))]
	content := runtime.DeepCopyJSON(c.history[len(c.history)-1])
	var container any = content
	for i, step := range f.steps {
		at := c.step(v, container, step)
		inner, exists := at.get()
		if i == len(f.steps)-1 || !exists || inner == nil || !step.leadsOn(inner, f.steps[i+1]) {
			c.change(v, kind, at, step)
			break
		}
		container = inner
	}
	return content
}

// leadsOn reports whether a value has the type for the next step.
func (s fieldStep) leadsOn(value any, next fieldStep) bool {
	switch v := value.(type) {
	case map[string]any:
		return next.kind == toProperty || next.kind == toValue && len(v) > 0
	case []any:
		return next.kind == toItem && len(v) > 0
	default:
		return false
	}
}

// former draws one of the first n contents.
func (c *changer) former(v values, n int) map[string]any {
	return runtime.DeepCopyJSON(c.history[v.pick("state", n)])
}

// A place is a field of a container.
type place struct {
	fields map[string]any
	name   string
	list   []any
	index  int // in list
}

func (p place) get() (value any, exists bool) {
	if p.fields == nil {
		return p.list[p.index], true
	}
	value, exists = p.fields[p.name]
	return value, exists
}

func (p place) set(value any) {
	if p.fields == nil {
		p.list[p.index] = value
		return
	}
	p.fields[p.name] = value
}

// step returns the place to which a step leads. Which entry of a list or map it is, is drawn.
func (c *changer) step(v values, container any, s fieldStep) place {
	switch in := container.(type) {
	case []any:
		return place{list: in, index: v.pick("index", len(in))}
	case map[string]any:
		if s.kind == toValue {
			keys := slices.Sorted(maps.Keys(in))
			return place{fields: in, name: keys[v.pick("key", len(keys))]}
		}
		return place{fields: in, name: s.name}
	default:
		panic("simtest: a step from a scalar") // leadsOn excludes it
	}
}

// change changes the value at a place.
func (c *changer) change(v values, kind string, at place, s fieldStep) {
	value, exists := at.get()
	switch kind {
	case "back":
		if c.back(at, s) {
			return
		}
	case "remove":
		if exists && at.fields != nil && !s.required {
			delete(at.fields, at.name)
			return
		}
	case "add":
		if changed, done := v.add(value, s); done {
			at.set(changed)
			return
		}
	case "drop":
		if changed, done := v.drop(value, s); done {
			at.set(changed)
			return
		}
	}
	drawn := v.draw(s.schema, s.path, len(strings.Split(s.path, "."))-2)
	if drawn == nil && at.fields != nil {
		delete(at.fields, at.name) // in a merge patch null removes a field
		return
	}
	at.set(drawn)
}

// back sets a property to the last other value that it had, and reports whether there is one.
func (c *changer) back(at place, s fieldStep) bool {
	if s.kind != toProperty || strings.ContainsAny(s.path, "*[") {
		return false
	}
	now, _ := at.get()
	for _, content := range slices.Backward(c.history) {
		former, exists := lookUp(content, s.path)
		if jsonText(former) == jsonText(now) {
			continue
		}
		if exists {
			at.set(runtime.DeepCopyJSONValue(former))
		} else {
			delete(at.fields, at.name)
		}
		return true
	}
	return false
}

// lookUp returns the value at a path of properties.
func lookUp(content map[string]any, path string) (any, bool) {
	var value any = content
	for _, name := range splitPath(path) {
		fields, _ := value.(map[string]any)
		inner, exists := fields[name]
		if !exists {
			return nil, false
		}
		value = inner
	}
	return value, true
}

// splitPath returns the names in a path of properties.
func splitPath(path string) []string {
	names := []string{""}
	for i := 0; i < len(path); i++ {
		switch last := &names[len(names)-1]; {
		case path[i] == '\\' && i+1 < len(path):
			i++
			*last += string(path[i])
		case path[i] == '.':
			names = append(names, "")
		default:
			*last += string(path[i])
		}
	}
	return names
}

// add returns a list or map with another entry.
func (v values) add(value any, s fieldStep) (changed any, done bool) {
	switch in := value.(type) {
	case []any:
		if s.schema.Items == nil {
			return nil, false
		}
		item := v.draw(s.schema.Items, s.path+"[]", 1)
		return append(slices.Clip(in), item), !s.schema.has(in, item)
	case map[string]any:
		if s.schema.Values == nil {
			return nil, false
		}
		key := mapKey(0)
		for i := 0; in[key] != nil; i++ {
			key = mapKey(i)
		}
		in[key] = v.draw(s.schema.Values, s.path+".*", 1)
		return in, true
	default:
		return nil, false
	}
}

// drop returns a list or map with an entry less.
func (v values) drop(value any, s fieldStep) (changed any, done bool) {
	switch in := value.(type) {
	case []any:
		if len(in) == 0 {
			return nil, false
		}
		i := v.pick("index", len(in))
		return slices.Delete(in, i, i+1), true
	case map[string]any:
		if s.schema.Values == nil || len(in) == 0 {
			return nil, false
		}
		keys := slices.Sorted(maps.Keys(in))
		delete(in, keys[v.pick("key", len(keys))])
		return in, true
	default:
		return nil, false
	}
}

// mergePatch returns the JSON merge patch that turns one object into another.
func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, have := range from {
		want, exists := to[name]
		if !exists || want == nil {
			if have != nil {
				patch[name] = nil
			}
			continue
		}
		before, isObject := have.(map[string]any)
		after, isStill := want.(map[string]any)
		if isObject && isStill {
			if inner := mergePatch(before, after); len(inner) > 0 {
				patch[name] = inner
			}
		} else if jsonText(have) != jsonText(want) {
			patch[name] = want
		}
	}
	for name, want := range to {
		if _, exists := from[name]; !exists && want != nil {
			patch[name] = want
		}
	}
	return patch
}

var (
	// plainName matches names that can be part of a path in an act.
	plainName = regexp.MustCompile(`^[^\s=\\"]+$`)
	// plainText matches values that need no quotes in an act.
	plainText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./:%_-]*$`)
)

// assignments returns the words of a patch act, PATH=VALUE, in the order of the paths. base is the
// object before: what is new is one value.
func assignments(patch, base map[string]any) []string { return assign(nil, "", patch, base) }

func assign(words []string, prefix string, patch, base map[string]any) []string {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		path := prefix + escapeField(name)
		inner, isObject := patch[name].(map[string]any)
		before, isChanged := base[name].(map[string]any)
		isPlain := !slices.ContainsFunc(slices.Collect(maps.Keys(inner)), func(n string) bool { return !plainName.MatchString(n) })
		if isObject && isChanged && len(inner) > 0 && isPlain {
			words = assign(words, path+".", inner, before)
			continue
		}
		words = append(words, path+"="+wordOf(patch[name]))
	}
	return words
}

// wordOf returns a value as an act has it.
func wordOf(value any) string {
	if text, is := value.(string); is && plainText.MatchString(text) && !json.Valid([]byte(text)) {
		return text
	}
	return jsonText(value)
}

// normalJSON returns a value with the types of JSON in API objects.
func normalJSON(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var normal any
	if err := json.Unmarshal(text, &normal); err != nil {
		return nil, err
	}
	return apiNumbers(normal), nil
}
