package fake

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// parts are the parts of an object that can be patched by themselves, and the fields that hold them.
var parts = map[string]string{"metadata": "ObjectMeta", "spec": "Spec", "status": "Status"}

// patchParts patches only the parts of an object that a merge patch names, which gives the same as patching the whole.
// It returns false where that may not be: for JSON patches, for patches that name anything else, remove a part, or hold
// what the whole may refuse or warn of.
func (p *patching) patchParts(old Object) (Object, bool) {
	if p.pt != types.MergePatchType && p.pt != types.StrategicMergePatchType {
		return nil, false
	}
	var patch map[string]any
	if strict, err := kjson.UnmarshalStrict(p.data, &patch); err != nil || len(strict) > 0 || patch == nil {
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
	obj := old.DeepCopyObject().(Object)
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

// patchPart patches one field of an object in place, and tells whether it could.
func (p *patching) patchPart(field any, patch map[string]any) bool {
	doc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(field)
	if err != nil {
		return false
	}
	if p.pt == types.StrategicMergePatchType {
		doc, err = strategicpatch.StrategicMergeMapPatch(doc, patch, field)
	} else if !mergeMaps(doc, patch) {
		return false
	}
	if err != nil {
		return false
	}
	reflect.ValueOf(field).Elem().SetZero()
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(doc, field, true) == nil
}

// mergeMaps merges a patch into a document, and tells whether it could: it leaves numbers and nulls in lists to those
// who read JSON.
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

// plain tells whether a list holds nothing but strings, and maps and lists of them.
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
