package fake

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchInPlace merges a patch into a copy of an object without encoding the object as JSON. The
// cost grows with the patch, not with the object. It returns false for a JSON patch and for an
// unusual patch: one that names unknown fields, has a directive, or needs a warning or an error.
func (p *patchRequest) patchInPlace(old Object) (Object, bool) {
	if p.pt != types.MergePatchType && p.pt != types.StrategicMergePatchType || p.r.kind.custom != nil {
		return nil, false
	}
	patch, ok := readPlain(p.data)
	if !ok || patch[0].kind != jsonMap {
		return nil, false
	}
	for part := range patch.all() {
		if name := part[0].name; part.isNull() || name == "kind" || name == "apiVersion" || name == "metadata" && hasDirective(part) {
			return nil, false
		}
	}
	obj := p.draft(old)
	return obj, merger{strategic: p.pt == types.StrategicMergePatchType}.merge(reflect.ValueOf(obj).Elem(), patch)
}

// hasDirective reports whether a patch of a struct has a directive.
func hasDirective(patch jsonValue) bool {
	for member := range patch.all() {
		if strings.HasPrefix(member[0].name, "$") {
			return true
		}
	}
	return false
}

// draft returns a copy of the part of an object that a patch may change. For a write of /status
// these are the metadata and the status.
func (p *patchRequest) draft(old Object) Object {
	k := p.r.kind
	if p.sub != statusSubresource || len(old.GetManagedFields()) > 0 || p.r.c.restrictsNodes() || p.r.c.server.admits() {
		return k.copy(old)
	}
	return k.copy(k.statusOnly(old))
}

// A merger merges a patch into a Go value in place. Its methods report whether they could; after
// false the value is invalid.
type merger struct {
	strategic bool
	inNew     bool // inside a list or a replaced value, where a null in a map depends on its origin
}

func (m merger) merge(to reflect.Value, patch jsonValue) bool {
	if patch.isNull() {
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

func (m merger) mergeStruct(to reflect.Value, patch jsonValue) bool {
	shape := shapeOf(to.Type())
	if shape.unmarshals {
		return unmarshal(to, &patch[0])
	}
	if patch[0].kind != jsonMap {
		return false
	}
	for value := range patch.all() {
		member, known := shape.members[value[0].name]
		if !known || !m.mergeMember(to.FieldByIndex(member.index), member, value) {
			return false
		}
	}
	return true
}

func (m merger) mergeMember(to reflect.Value, member member, patch jsonValue) bool {
	switch {
	case patch[0].kind == jsonList && m.strategic && member.merges && to.Kind() == reflect.Slice:
		return m.mergeList(to, patch, member.key)
	case patch[0].kind == jsonMap && m.strategic && member.replaces:
		m.inNew = true
		to.SetZero()
	}
	return m.merge(to, patch)
}

// mergeMap merges into a map from strings to strings or to JSON unmarshalers, such as quantities.
func (m merger) mergeMap(to reflect.Value, patch jsonValue) bool {
	if patch[0].kind != jsonMap || to.Type().Key().Kind() != reflect.String || reflect.PointerTo(to.Type()).Implements(unmarshaler) {
		return false
	}
	if to.IsNil() {
		to.Set(reflect.MakeMapWithSize(to.Type(), patch.count()))
	}
	elem := to.Type().Elem()
	for value := range patch.all() {
		name := value[0].name
		key := reflect.ValueOf(name).Convert(to.Type().Key())
		if value.isNull() && m.inNew {
			return false
		}
		if value.isNull() {
			to.SetMapIndex(key, reflect.Value{})
			continue
		}
		item := reflect.New(elem).Elem()
		if value[0].kind == jsonMap || m.strategic && strings.HasPrefix(name, "$") || !m.merge(item, value) {
			return false
		}
		to.SetMapIndex(key, item)
	}
	return true
}

// replaceList replaces a list.
func (m merger) replaceList(to reflect.Value, patch jsonValue) bool {
	if patch[0].kind != jsonList || reflect.PointerTo(to.Type()).Implements(unmarshaler) {
		return false
	}
	m.inNew = true
	n := patch.count()
	list, i := reflect.MakeSlice(to.Type(), n, n), 0
	for value := range patch.all() {
		if value.isNull() || !m.merge(list.Index(i), value) {
			return false
		}
		i++
	}
	to.Set(list)
	return true
}

// mergedInPlaceMax is the limit of elements in a list that is merged in place. Their keys are
// compared with each other.
const mergedInPlaceMax = 256

// mergeList merges a list into another as a strategic merge patch does. Elements with equal keys
// are merged, others are added. Elements in the patch have the patch's order. Other elements stay
// before the element that they preceded.
//
// Upstream: k8s.io/apimachinery/pkg/util/strategicpatch mergeSlice, mergeSortedSlice.
func (m merger) mergeList(to reflect.Value, patch jsonValue, key string) bool {
	if n := patch.count(); n > mergedInPlaceMax || to.Len() > mergedInPlaceMax {
		return false
	}
	old, ok := keysOf(to, key)
	if !ok {
		return false
	}
	m.inNew = true
	named := make([]string, 0, patch.count())
	for value := range patch.all() {
		name, ok := keyIn(value, key)
		if !ok || slices.Contains(named, name) {
			return false
		}
		named = append(named, name)
	}
	out := reflect.MakeSlice(to.Type(), 0, len(old)+len(named))
	rest, i := 0, 0 // index of elements that are not in the patch, and that are
	for value := range patch.all() {
		at := slices.Index(old, named[i])
		i++
		for rest < len(old) && (slices.Contains(named, old[rest]) || rest < at) {
			if !slices.Contains(named, old[rest]) {
				out = reflect.Append(out, to.Index(rest))
			}
			rest++
		}
		out = out.Slice(0, out.Len()+1)
		elem := out.Index(out.Len() - 1)
		if at >= 0 {
			elem.Set(to.Index(at))
		}
		if !m.merge(elem, value) {
			return false
		}
	}
	for ; rest < len(old); rest++ {
		if !slices.Contains(named, old[rest]) {
			out = reflect.Append(out, to.Index(rest))
		}
	}
	to.Set(out)
	return true
}

// keysOf returns the merge keys of a list's elements; without a key, the elements themselves. It
// returns false unless they are distinct strings.
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

// keyIn returns the merge key of an element in a patch. It returns false unless it is a string.
func keyIn(elem jsonValue, key string) (string, bool) {
	if key != "" {
		elem = elem.member(key)
	}
	if elem == nil || elem[0].kind != jsonString {
		return "", false
	}
	return elem[0].text, elem[0].text != ""
}

// setScalar sets a string, a boolean or an integer. It returns false for other values.
func setScalar(to reflect.Value, value jsonValue) bool {
	switch node := &value[0]; node.kind {
	case jsonString:
		if to.Kind() == reflect.String {
			to.SetString(node.text)
			return true
		}
	case jsonBool:
		if to.Kind() == reflect.Bool {
			to.SetBool(node.text == "true")
			return true
		}
	case jsonInt:
		if n := node.number(); to.CanInt() && !to.OverflowInt(n) {
			to.SetInt(n)
			return true
		}
	}
	return false
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unmarshal sets a value that implements json.Unmarshaler to a scalar.
func unmarshal(to reflect.Value, value *jsonNode) bool {
	switch value.kind {
	case jsonString, jsonBool, jsonInt:
	default:
		return false
	}
	unmarshaler, data := to.Addr().Interface().(json.Unmarshaler), []byte(value.text)
	if at, ok := unmarshaler.(*metav1.Time); ok && value.kind == jsonString {
		parsed, err := time.Parse(time.RFC3339, value.text) // as its UnmarshalJSON, without a copy of the string
		at.Time = parsed.Local()
		return err == nil
	}
	if value.kind == jsonString {
		var err error
		if data, err = json.Marshal(value.text); err != nil {
			return false
		}
	}
	return unmarshaler.UnmarshalJSON(data) == nil
}

// A shape describes a struct type for patches.
type shape struct {
	unmarshals bool              // it implements json.Unmarshaler, as times and quantities do
	members    map[string]member // by JSON name
}

// A member is a field of a struct.
type member struct {
	index    []int
	merges   bool   // a strategic merge patch merges the list's elements
	key      string // the merge key; "": the elements themselves
	replaces bool   // a strategic merge patch replaces the map instead of merging it
}

// shapes caches the shape of each patched type. A shape depends on the type alone.
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

// add adds the fields of an embedded struct.
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
			s.members[name] = member{
				index: index, merges: slices.Contains(strategy, "merge"),
				key: f.Tag.Get("patchMergeKey"), replaces: slices.Contains(strategy, "replace"),
			}
		}
	}
}
