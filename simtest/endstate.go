package simtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/volsim/volsim/fake"
)

// An objectKey names an object. The resource is that of fake.Commit.
type objectKey struct{ resource, namespace, name string }

// A state is the end of a world, as far as operators made it.
type state struct {
	object *unstructured.Unstructured // the custom object as it is stored; nil: it does not exist
	// objects are the compared values, as JSON by path, of each object: "configmaps default/main".
	objects map[string]map[string]string
}

// volatile are the names of fields that are not compared, at any depth.
var volatile = []string{"uid", "resourceVersion", "generation", "observedGeneration", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"}

// timestamp matches times as API objects have them.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// stateOf returns the state of a world with objects that operators wrote.
func (c *convergence) stateOf(api *fake.Server, written map[objectKey]bool) state {
	s := state{object: c.custom(api), objects: map[string]map[string]string{}}
	stored := map[objectKey]map[string]any{}
	if s.object != nil {
		key := objectKey{c.resource.id, c.seed.GetNamespace(), c.seed.GetName()}
		stored[key] = s.object.DeepCopy().Object
	}
	generated := map[string]string{} // names by generateName, and their replacement
	for key := range written {
		if !api.Serves(key.resource) {
			continue
		}
		if obj, exists := api.Get(key.resource, key.namespace, key.name); exists && !c.ignores(key.resource) {
			stored[key] = toUnstructured(obj).Object
			if prefix := obj.GetGenerateName(); prefix != "" {
				generated[key.name] = prefix + "*"
			}
		}
	}
	byName := map[string][]map[string]any{}
	for key, content := range stored {
		name := key.name
		if short, is := generated[name]; is {
			name = short
		}
		label := key.resource + " " + strings.TrimPrefix(key.namespace+"/"+name, "/")
		normal := normalize(content, generated).(map[string]any)
		c.dropIgnored(key.resource, normal)
		byName[label] = append(byName[label], normal)
	}
	for label, all := range byName {
		slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(jsonText(a), jsonText(b)) })
		for i, content := range all {
			name := label
			if i > 0 {
				name = fmt.Sprintf("%s (%d)", label, i+1) // of a generated name
			}
			s.objects[name] = map[string]string{}
			flatten(s.objects[name], "", content)
		}
	}
	return s
}

// ignores reports whether objects of a resource are not compared. Events are what happened, not a state.
func (c *convergence) ignores(resource string) bool {
	return slices.Contains([]string{"events", "leases"}, resource) || slices.Contains(c.Ignore, resource)
}

// dropIgnored removes the fields of an object that are not compared.
func (c *convergence) dropIgnored(resource string, content map[string]any) {
	for _, each := range c.Ignore {
		of, path, is := strings.Cut(each, " ")
		if !is || of != resource {
			continue
		}
		names := splitPath(path)
		fields := content
		for _, name := range names[:len(names)-1] {
			fields, _ = fields[name].(map[string]any)
		}
		delete(fields, names[len(names)-1])
	}
}

// normalize returns a copy of a value without what differs between two runs of the same.
func normalize(value any, generated map[string]string) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			if !slices.Contains(volatile, name) {
				out[name] = normalize(inner, generated)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = normalize(v[i], generated)
		}
		return out
	case string:
		if short, is := generated[v]; is {
			return short
		}
		if timestamp.MatchString(v) {
			return "TIME"
		}
	}
	return value
}

// flatten adds the scalars within a value to fields, by path.
func flatten(fields map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			break
		}
		for name, inner := range v {
			within := escapeField(name)
			if path != "" {
				within = path + "." + escapeField(name)
			}
			flatten(fields, within, inner)
		}
		return
	case []any:
		if len(v) == 0 {
			break
		}
		for i, inner := range v {
			flatten(fields, fmt.Sprintf("%s[%d]", path, i), inner)
		}
		return
	}
	fields[path] = jsonText(value)
}

// diff returns how another state differs, in lines.
func (s state) diff(got state) []string {
	var lines []string
	all := maps.Clone(s.objects)
	maps.Copy(all, got.objects)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		wanted, have := s.objects[name], got.objects[name]
		switch {
		case have == nil:
			lines = append(lines, name+": got none, want one")
			continue
		case wanted == nil:
			lines = append(lines, name+": got one, want none")
			continue
		}
		paths := maps.Clone(wanted)
		maps.Copy(paths, have)
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			if have[path] != wanted[path] {
				lines = append(lines, fmt.Sprintf("%s: %s: got %s, want %s", name, path, orNone(have[path]), orNone(wanted[path])))
			}
		}
	}
	return lines
}

// orNone returns a compared value in words.
func orNone(value string) string { return cmp.Or(value, "none") }

// toUnstructured returns a stored object with JSON types.
func toUnstructured(obj fake.Object) *unstructured.Unstructured {
	text, err := json.Marshal(obj)
	u := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(text, &u.Object)
	}
	if err != nil {
		panic(fmt.Sprintf("simtest: %v", err)) // API objects can be converted
	}
	apiNumbers(u.Object)
	return u
}
