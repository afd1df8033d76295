package fake

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// This file bounds what a patch may cost. The libraries that apply patches decode each level of a
// document with everything below it, copy a list at each insertion, and compare each element of a
// merged list with each other. Their cost is a product, such as size times depth, and a small
// request could occupy the server for minutes.
//
// Differs: the real server has no such bound. It answers with 504 after a minute, and goes on.

const (
	// copiedBytesMax is the limit of bytes that the copy operations of a JSON patch may add, as on
	// the real server.
	copiedBytesMax = 3 << 20
	// patchCostMax is the limit of each product. It takes about a second. An object of 1 MiB that
	// is 200 levels deep is below it.
	patchCostMax = 256 << 20
	// mergedListMax is the limit of elements in a list that a strategic merge patch may merge
	// with, if not in place.
	mergedListMax = 10_000
	// appliedFieldsMax is the limit of members of one map or list in an apply configuration, and
	// in an object with managed fields.
	appliedFieldsMax = 20_000
	// appliedLevelsMax is the limit of the levels of all values in them together. A chain of 8,000
	// maps is below it, and so are 100,000 values that are 300 levels deep.
	appliedLevelsMax = 32_000_000
)

// The library has no other way to set its limit. A program may set it first, or change it later.
func init() {
	if jsonpatch.AccumulatedCopySizeLimit == 0 {
		jsonpatch.AccumulatedCopySizeLimit = copiedBytesMax
	}
}

// tooCostly returns the error about a patch that costs too much.
func tooCostly(what string, got, most int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum of %s is %d, got %d", what, most, got))
}

// checkMergeCost returns an error if a merge patch of a document costs too much.
func checkMergeCost(doc, patch []byte) error {
	if cost := depthOf(patch) * (len(doc) + len(patch)); cost > patchCostMax {
		return tooCostly("bytes times levels in a merge patch", cost, patchCostMax)
	}
	return nil
}

// checkJSONPatchCost returns an error if a JSON patch of a document costs too much.
func checkJSONPatchCost(doc, patch []byte, ops jsonpatch.Patch) error {
	levels, size, shifts := 0, len(doc)+len(patch), 0
	for _, op := range ops {
		path, _ := op.Path()
		from, _ := op.From()
		levels = max(levels, strings.Count(path, "/"), strings.Count(from, "/"))
		kind := op.Kind()
		switch {
		case kind == "test" && op["value"] != nil:
			levels = max(levels, depthOf(*op["value"]))
		case kind == "copy":
			size = max(size, copiedBytesMax)
		}
		if kind != "test" && kind != "replace" && (endsInIndex(path) || endsInIndex(from)) {
			shifts++
		}
	}
	if cost := levels * size; cost > patchCostMax {
		return tooCostly("bytes times levels in a JSON patch", cost, patchCostMax)
	}
	if shifts < 2 {
		return nil
	}
	elements := bytes.Count(doc, []byte{','}) + bytes.Count(patch, []byte{','})
	if cost := shifts * elements; cost > patchCostMax {
		return tooCostly("elements times insertions in a JSON patch", cost, patchCostMax)
	}
	return nil
}

// endsInIndex reports whether the last part of a path may be an index of a list.
func endsInIndex(path string) bool {
	_, err := strconv.Atoi(path[strings.LastIndexByte(path, '/')+1:])
	return err == nil
}

// depthOf returns how deep the maps and lists of a JSON document are nested.
func depthOf(doc []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++ // the next byte is escaped
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// checkStrategicCost returns an error if a strategic merge patch that cannot be applied in place
// costs too much.
func (p *patchRequest) checkStrategicCost(old Object) error {
	if p.pt != types.StrategicMergePatchType {
		return nil
	}
	n := max(1+bytes.Count(p.data, []byte{','}), widest(reflect.ValueOf(old), reflect.Slice))
	if n <= mergedListMax {
		return nil
	}
	if patch, ok := p.decoded(); ok {
		n = max(widest(reflect.ValueOf(patch), reflect.Slice), widest(reflect.ValueOf(old), reflect.Slice))
	}
	if n > mergedListMax {
		return tooCostly("elements of a list in a strategic merge patch", n, mergedListMax)
	}
	return nil
}

// checkApplyCost returns an error if it costs too much to track the fields of the objects.
func checkApplyCost(objects ...any) error {
	for _, obj := range objects {
		n := max(widest(reflect.ValueOf(obj), reflect.Slice), widest(reflect.ValueOf(obj), reflect.Map))
		if n > appliedFieldsMax {
			return tooCostly("members of a map or a list in server-side apply", n, appliedFieldsMax)
		}
		if n := levelsOf(obj, 0); n > appliedLevelsMax {
			return tooCostly("values times levels in server-side apply", n, appliedLevelsMax)
		}
	}
	return nil
}

// levelsOf returns the sum of the levels of all values in an untyped object, which is at a level
// itself. It is 0 for Go types, which have few.
func levelsOf(obj any, level int) int {
	n := level
	switch v := obj.(type) {
	case *CustomObject:
		return levelsOf(v.Content, level)
	case map[string]any:
		for _, elem := range v {
			n += levelsOf(elem, level+1)
		}
	case []any:
		for _, elem := range v {
			n += levelsOf(elem, level+1)
		}
	}
	return n
}

// widest returns the length of the longest slice or map in a value. Bytes are not counted.
func widest(v reflect.Value, kind reflect.Kind) int {
	n := 0
	if v.Kind() == kind {
		n = v.Len()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = widest(v.Elem(), kind)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n = max(n, widest(v.Field(i), kind))
		}
	case reflect.Slice:
		if isScalar(v.Type().Elem()) {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				return 0
			}
			return n
		}
		for i := range v.Len() {
			n = max(n, widest(v.Index(i), kind))
		}
	case reflect.Map:
		if isScalar(v.Type().Elem()) {
			return n
		}
		for it := v.MapRange(); it.Next(); {
			n = max(n, widest(it.Value(), kind))
		}
	}
	return n
}

// isScalar reports whether values of a type have no elements.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Slice, reflect.Map:
		return false
	}
	return true
}
