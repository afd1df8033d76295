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

// patchInPlace merges a patch into a copy of an object, without writing the object down as JSON: the work grows with what
// the patch says, not with the object. It returns false for JSON patches, and where the patch is not of the ordinary sort:
// it names what the object does not have, has a directive, or is to be warned of or refused.
func (p *patching) patchInPlace(old Object) (Object, bool) {
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

// hasDirective tells whether a patch of a struct has a directive.
func hasDirective(patch jsonValue) bool {
	for member := range patch.all() {
		if strings.HasPrefix(member[0].name, "$") {
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
	is := shapeOf(to.Type())
	if is.unmarshals {
		return unmarshal(to, &patch[0])
	}
	if patch[0].kind != jsonMap {
		return false
	}
	for value := range patch.all() {
		member, known := is.members[value[0].name]
		if !known || !m.mergeMember(to.FieldByIndex(member.index), member, value) {
			return false
		}
	}
	return true
}

func (m merger) mergeMember(to reflect.Value, member member, patch jsonValue) bool {
	if patch[0].kind == jsonList && m.strategic && member.merged && to.Kind() == reflect.Slice {
		return m.mergeList(to, patch, member.key)
	}
	return m.merge(to, patch)
}

// mergeMap merges into a map from strings to strings or to what reads JSON itself, such as quantities.
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
		if value.isNull() && m.listed {
			return false
		}
		if value.isNull() {
			to.SetMapIndex(key, reflect.Value{})
			continue
		}
		is := reflect.New(elem).Elem()
		if value[0].kind == jsonMap || m.strategic && strings.HasPrefix(name, "$") || !m.merge(is, value) {
			return false
		}
		to.SetMapIndex(key, is)
	}
	return true
}

// replaceList puts a list in the place of another.
func (m merger) replaceList(to reflect.Value, patch jsonValue) bool {
	if patch[0].kind != jsonList || reflect.PointerTo(to.Type()).Implements(unmarshaler) {
		return false
	}
	m.listed = true
	n := patch.count()
	is, i := reflect.MakeSlice(to.Type(), n, n), 0
	for value := range patch.all() {
		if value.isNull() || !m.merge(is.Index(i), value) {
			return false
		}
		i++
	}
	to.Set(is)
	return true
}

// mergeList merges a list into another as a strategic merge patch does: elements with the same key are merged, others
// added. What the patch names comes in the order of the patch; what it does not name stays before what it stood before.
//
// Upstream: k8s.io/apimachinery/pkg/util/strategicpatch mergeSlice, mergeSortedSlice.
func (m merger) mergeList(to reflect.Value, patch jsonValue, key string) bool {
	was, ok := keysOf(to, key)
	if !ok {
		return false
	}
	m.listed = true
	named := make([]string, 0, patch.count())
	for value := range patch.all() {
		name, ok := keyIn(value, key)
		if !ok || slices.Contains(named, name) {
			return false
		}
		named = append(named, name)
	}
	out := reflect.MakeSlice(to.Type(), 0, len(was)+len(named))
	rest, i := 0, 0 // of what is not named, and of what is
	for value := range patch.all() {
		at := slices.Index(was, named[i])
		i++
		for rest < len(was) && (slices.Contains(named, was[rest]) || rest < at) {
			if !slices.Contains(named, was[rest]) {
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
func keyIn(elem jsonValue, key string) (string, bool) {
	if key != "" {
		elem = elem.member(key)
	}
	if elem == nil || elem[0].kind != jsonString {
		return "", false
	}
	return elem[0].text, elem[0].text != ""
}

// setScalar sets a string, a boolean or a whole number. Others are left to those who read JSON.
func setScalar(to reflect.Value, value jsonValue) bool {
	switch is := &value[0]; is.kind {
	case jsonString:
		if to.Kind() == reflect.String {
			to.SetString(is.text)
			return true
		}
	case jsonBool:
		if to.Kind() == reflect.Bool {
			to.SetBool(is.text == "true")
			return true
		}
	case jsonInt:
		if n := is.number(); to.CanInt() && !to.OverflowInt(n) {
			to.SetInt(n)
			return true
		}
	}
	return false
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unmarshal has a value read a scalar itself.
func unmarshal(to reflect.Value, value *jsonNode) bool {
	switch value.kind {
	case jsonString, jsonBool, jsonInt:
	default:
		return false
	}
	is, data := to.Addr().Interface().(json.Unmarshaler), []byte(value.text)
	if at, ok := is.(*metav1.Time); ok && value.kind == jsonString {
		parsed, err := time.Parse(time.RFC3339, value.text) // as it does itself, but for the string it would make
		at.Time = parsed.Local()
		return err == nil
	}
	if value.kind == jsonString {
		var err error
		if data, err = json.Marshal(value.text); err != nil {
			return false
		}
	}
	return is.UnmarshalJSON(data) == nil
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
