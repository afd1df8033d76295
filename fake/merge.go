package fake

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// patchInPlace merges a patch into a copy of an object, without writing the object down as JSON: the work grows with what
// the patch says, not with the object. It returns false for JSON patches, and where the patch is not of the ordinary sort:
// it names what the object does not have, has a directive, or is to be warned of or refused.
func (p *patching) patchInPlace(old Object) (Object, bool) {
	patch, ok := p.decoded()
	if !ok || p.r.kind.custom != nil {
		return nil, false
	}
	for name, value := range patch {
		if value == nil || name == "kind" || name == "apiVersion" {
			return nil, false
		}
	}
	if metadata, ok := patch["metadata"].(map[string]any); ok && directs(metadata) {
		p.unused = patch
		return nil, false
	}
	obj := p.draft(old)
	return obj, merger{strategic: p.pt == types.StrategicMergePatchType}.merge(reflect.ValueOf(obj).Elem(), patch)
}

// directs tells whether a map, which is to be merged into a struct, has a directive.
func directs(patch map[string]any) bool {
	for name := range patch {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

// draft copies what a patch may change of an object: of a write of /status that is the metadata and the status.
func (p *patching) draft(old Object) Object {
	k := p.r.kind
	if p.sub != throughStatus || len(old.GetManagedFields()) > 0 {
		return k.copy(old)
	}
	return k.copy(k.statusOnly(old))
}

// merger merges a patch into the Go value it is for, in place. Its methods tell whether they could; a value that they
// could not merge into is of no use any more.
type merger struct {
	strategic bool
	listed    bool // within a list: what a null in a map means there depends on where the list comes from
}

func (m merger) merge(to reflect.Value, patch any) bool {
	if patch == nil {
		to.SetZero()
		return true
	}
	switch to.Kind() {
	case reflect.Pointer:
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		return m.merge(to.Elem(), patch)
	case reflect.Struct:
		return m.mergeStruct(to, patch)
	case reflect.Map:
		return m.mergeMap(to, patch)
	case reflect.Slice:
		return m.replaceList(to, patch)
	default:
		return setScalar(to, patch)
	}
}

func (m merger) mergeStruct(to reflect.Value, patch any) bool {
	is := shapeOf(to.Type())
	if is.unmarshals {
		return unmarshal(to, patch)
	}
	fields, ok := patch.(map[string]any)
	for name, value := range fields {
		member, known := is.members[name]
		if !known || !m.mergeMember(to.FieldByIndex(member.index), member, value) {
			return false
		}
	}
	return ok
}

func (m merger) mergeMember(to reflect.Value, member member, patch any) bool {
	if list, ok := patch.([]any); ok && m.strategic && member.merged && to.Kind() == reflect.Slice {
		return m.mergeList(to, list, member.key)
	}
	return m.merge(to, patch)
}

// mergeMap merges into a map from strings to strings or to what reads JSON itself, such as quantities.
func (m merger) mergeMap(to reflect.Value, patch any) bool {
	entries, ok := patch.(map[string]any)
	if !ok || to.Type().Key().Kind() != reflect.String || reflect.PointerTo(to.Type()).Implements(unmarshaler) {
		return false
	}
	if to.IsNil() {
		to.Set(reflect.MakeMapWithSize(to.Type(), len(entries)))
	}
	elem := to.Type().Elem()
	for name, value := range entries {
		key := reflect.ValueOf(name).Convert(to.Type().Key())
		if value == nil && m.listed {
			return false
		}
		if value == nil {
			to.SetMapIndex(key, reflect.Value{})
			continue
		}
		is := reflect.New(elem).Elem()
		if _, deep := value.(map[string]any); deep || m.strategic && strings.HasPrefix(name, "$") || !m.merge(is, value) {
			return false
		}
		to.SetMapIndex(key, is)
	}
	return true
}

// replaceList puts a list in the place of another.
func (m merger) replaceList(to reflect.Value, patch any) bool {
	list, ok := patch.([]any)
	if !ok || reflect.PointerTo(to.Type()).Implements(unmarshaler) {
		return false
	}
	m.listed = true
	is := reflect.MakeSlice(to.Type(), len(list), len(list))
	for i, value := range list {
		if value == nil || !m.merge(is.Index(i), value) {
			return false
		}
	}
	to.Set(is)
	return true
}

// mergeList merges a list into another as a strategic merge patch does: elements with the same key are merged, others
// added. What the patch names comes in the order of the patch; what it does not name stays before what it stood before.
//
// Upstream: k8s.io/apimachinery/pkg/util/strategicpatch mergeSlice, mergeSortedSlice.
func (m merger) mergeList(to reflect.Value, patch []any, key string) bool {
	was, ok := keysOf(to, key)
	if !ok {
		return false
	}
	m.listed = true
	named := make([]string, len(patch))
	for i, value := range patch {
		if named[i], ok = keyIn(value, key); !ok || slices.Contains(named[:i], named[i]) {
			return false
		}
	}
	out := reflect.MakeSlice(to.Type(), 0, len(was)+len(patch))
	rest := 0 // of what is not named
	for i, value := range patch {
		at := slices.Index(was, named[i])
		for rest < len(was) && (slices.Contains(named, was[rest]) || rest < at) {
			if !slices.Contains(named, was[rest]) {
				out = reflect.Append(out, to.Index(rest))
			}
			rest++
		}
		elem := reflect.New(to.Type().Elem()).Elem()
		if at >= 0 {
			elem.Set(to.Index(at))
		}
		if !m.merge(elem, value) {
			return false
		}
		out = reflect.Append(out, elem)
	}
	for ; rest < len(was); rest++ {
		if !slices.Contains(named, was[rest]) {
			out = reflect.Append(out, to.Index(rest))
		}
	}
	to.Set(out)
	return true
}

// keysOf returns the keys by which the elements of a list are merged: the elements themselves where key is empty. It
// returns false where they are not strings that tell the elements apart.
func keysOf(list reflect.Value, key string) ([]string, bool) {
	keys := make([]string, list.Len())
	for i := range keys {
		elem := list.Index(i)
		if key != "" {
			if elem.Kind() != reflect.Struct {
				return nil, false
			}
			member, ok := shapeOf(elem.Type()).members[key]
			if !ok {
				return nil, false
			}
			elem = elem.FieldByIndex(member.index)
		}
		if elem.Kind() != reflect.String || elem.String() == "" || slices.Contains(keys[:i], elem.String()) {
			return nil, false
		}
		keys[i] = elem.String()
	}
	return keys, true
}

// keyIn is the key of an element of a patch's list, and whether it has one that is a string.
func keyIn(elem any, key string) (string, bool) {
	if key != "" {
		fields, _ := elem.(map[string]any)
		elem = fields[key]
	}
	s, ok := elem.(string)
	return s, ok && s != ""
}

// setScalar sets a string, a boolean or a whole number. Others are left to those who read JSON.
func setScalar(to reflect.Value, value any) bool {
	switch v := value.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return true
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(v)
			return true
		}
	case int64:
		if to.CanInt() && !to.OverflowInt(v) {
			to.SetInt(v)
			return true
		}
	}
	return false
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unmarshal has a value read a scalar itself.
func unmarshal(to reflect.Value, value any) bool {
	switch value.(type) {
	case string, bool, int64:
	default:
		return false
	}
	data, err := json.Marshal(value)
	return err == nil && to.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(data) == nil
}

// shape is a type of structs as a patch sees it.
type shape struct {
	unmarshals bool              // it reads JSON itself, as a time and a quantity do
	members    map[string]member // by their names in JSON
}

// member is a field of a struct.
type member struct {
	index  []int
	merged bool   // a strategic merge patch merges the elements of the list
	key    string // by this field of theirs; "": they are their own keys
}

// shapes has the shape of each type that was patched. A shape follows from the type alone.
var shapes sync.Map

func shapeOf(t reflect.Type) shape {
	if known, ok := shapes.Load(t); ok {
		return known.(shape)
	}
	s := shape{unmarshals: reflect.PointerTo(t).Implements(unmarshaler), members: map[string]member{}}
	s.add(t, nil)
	shapes.Store(t, s)
	return s
}

// add adds the fields of a struct that is embedded at an index.
func (s shape) add(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			s.add(f.Type, index)
		case name != "" && name != "-" && f.IsExported():
			strategy := strings.Split(f.Tag.Get("patchStrategy"), ",")
			s.members[name] = member{index: index, merged: slices.Contains(strategy, "merge"), key: f.Tag.Get("patchMergeKey")}
		}
	}
}
