package fake

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// parts has the Go fields of the parts of an object that can be patched separately.
var parts = map[string]string{"metadata": "ObjectMeta", "spec": "Spec", "status": "Status"}

// patchFinalizers applies a JSON patch of finalizers only, as protection controllers send it. It
// returns false for any other patch, for a failing test, and if the patch needs a warning or an
// error.
func (p *patchRequest) patchFinalizers(old Object) (Object, bool) {
	var ops []jsonPatchOp
	if p.pt != types.JSONPatchType || p.r.kind.custom != nil {
		return nil, false
	}
	if strict, err := kjson.UnmarshalStrict(p.data, &ops); err != nil || len(strict) > 0 || len(ops) > operationsMax {
		return nil, false
	}
	finalizers := slices.Clone(old.GetFinalizers())
	if len(finalizers) > mergedInPlaceMax {
		return nil, false
	}
	for _, op := range ops {
		place, ok := strings.CutPrefix(op.Path, "/metadata/finalizers")
		if ok = ok && op.From == ""; ok {
			finalizers, ok = op.onFinalizers(finalizers, place)
		}
		if !ok {
			return nil, false
		}
	}
	obj := p.draft(old)
	obj.SetFinalizers(finalizers)
	return obj, true
}

// onFinalizers applies an operation to the finalizers of an object, and reports whether it could.
// place is "" for the list, "/-" for its end, or "/" and an index.
func (op jsonPatchOp) onFinalizers(finalizers []string, place string) ([]string, bool) {
	value, isString := op.Value.(string)
	i := -1
	for at := range finalizers {
		if place == "/"+strconv.Itoa(at) {
			i = at
		}
	}
	switch {
	case op.Op == "test" && place == "":
		return finalizers, finalizers == nil && op.Value == nil
	case op.Op == "test" && i >= 0:
		return finalizers, isString && finalizers[i] == value
	case op.Op == "remove" && i >= 0:
		return slices.Delete(finalizers, i, i+1), true
	case op.Op == "add" && place == "/-" && len(finalizers) > 0:
		return append(finalizers, value), isString
	case op.Op == "add" && place == "" && len(finalizers) == 0:
		list, _ := op.Value.([]any)
		finalizers = []string{}
		for _, f := range list {
			name, ok := f.(string)
			if !ok {
				return nil, false
			}
			finalizers = append(finalizers, name)
		}
		return finalizers, list != nil
	}
	return nil, false
}

// decoded returns a merge patch as a map, which belongs to the caller. It returns false for other
// patch types, and if the patch needs a warning or an error.
func (p *patchRequest) decoded() (patch map[string]any, ok bool) {
	if p.pt != types.MergePatchType && p.pt != types.StrategicMergePatchType {
		return nil, false
	}
	strict, err := kjson.UnmarshalStrict(p.data, &patch)
	return patch, err == nil && len(strict) == 0 && patch != nil
}

// patchParts applies a merge patch to the parts of an object that it names. The result is the same
// as that of patching the whole. It returns false for JSON patches, and for patches that name other
// fields, remove a part, or may need a warning or an error.
func (p *patchRequest) patchParts(old Object) (Object, bool) {
	patch, ok := p.decoded()
	if !ok {
		return nil, false
	}
	fields := reflect.ValueOf(old).Elem()
	for name, part := range patch {
		_, ok := part.(map[string]any)
		field := fields.FieldByName(parts[name])
		if !ok || !field.IsValid() || field.Kind() != reflect.Struct {
			return nil, false
		}
	}
	obj := p.r.kind.copy(old)
	fields = reflect.ValueOf(obj).Elem()
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		part := patch[name].(map[string]any)
		field := fields.FieldByName(parts[name]).Addr().Interface()
		if !p.patchPart(field, part) {
			return nil, false
		}
	}
	return obj, true
}

// patchPart patches one field of an object in place, and reports whether it could. It encodes only
// the fields that the patch names.
func (p *patchRequest) patchPart(field any, patch map[string]any) bool {
	value := reflect.ValueOf(field).Elem()
	touched, ok := touched(value.Type(), patch)
	if !ok {
		return false
	}
	part := reflect.New(value.Type())
	for _, m := range touched {
		part.Elem().FieldByIndex(m.index).Set(value.FieldByIndex(m.index))
	}
	doc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part.Interface())
	if err != nil {
		return false
	}
	if p.pt == types.StrategicMergePatchType {
		doc, err = mergeStrategically(doc, patch, field)
	} else if !mergeMaps(doc, patch) {
		return false
	}
	if err != nil {
		return false
	}
	part.Elem().SetZero()
	if runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(doc, part.Interface(), true) != nil {
		return false
	}
	for _, m := range touched {
		value.FieldByIndex(m.index).Set(part.Elem().FieldByIndex(m.index))
	}
	return true
}

// touched returns the fields of a struct that a patch names, directly or in a directive. A
// directive about the struct itself touches all fields. It returns false if there is no such field.
func touched(t reflect.Type, patch map[string]any) ([]member, bool) {
	members := shapeOf(t).members
	var all []member
	for name := range patch {
		if directive := strings.HasPrefix(name, "$"); directive && !strings.Contains(name, "/") {
			return slices.Collect(maps.Values(members)), true
		} else if directive {
			_, name, _ = strings.Cut(name, "/")
		}
		m, ok := members[name]
		if !ok {
			return nil, false
		}
		all = append(all, m)
	}
	return all, true
}

// mergeMaps merges a patch into a document, and reports whether it could. Numbers and nulls in
// lists need the general code.
func mergeMaps(doc, patch map[string]any) bool {
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(doc, name)
		case string, bool:
			doc[name] = v
		case map[string]any:
			to, ok := doc[name].(map[string]any)
			if !ok {
				to = map[string]any{}
				doc[name] = to
			}
			if !mergeMaps(to, v) {
				return false
			}
		case []any:
			if !plain(v) {
				return false
			}
			doc[name] = v
		default:
			return false
		}
	}
	return true
}

// plain reports whether a list has only strings, and maps and lists of strings.
func plain(list []any) bool {
	for _, value := range list {
		switch v := value.(type) {
		case string, bool:
		case []any:
			if !plain(v) {
				return false
			}
		case map[string]any:
			if !plain(slices.Collect(maps.Values(v))) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
