package fake

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// The fast paths of a patch give the same as apimachinery's functions, for every kind.
func TestFastPatchEqualsPatchOfTheWholeForEveryKind(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.id, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { checkFastPatch(t, k) })
		})
	}
}

func checkFastPatch(t *rapid.T, k *kind) {
	r := ResourceClient{kind: k, version: k.gvk.Version}
	old, other := k.empty(), k.empty()
	drawObject(t, old)
	drawObject(t, other)
	pt := rapid.SampledFrom([]types.PatchType{types.MergePatchType, types.StrategicMergePatchType}).Draw(t, "type")
	data := drawPatch(t, other, pt == types.StrategicMergePatchType)
	p := patchRequest{r: r, pt: pt, data: data}
	before := old.DeepCopyObject().(Object)
	for name, fast := range map[string]func(Object) (Object, bool){"in place": p.patchInPlace, "by parts": p.patchParts} {
		got, ok := fast(old)
		if diff := cmp.Diff(before, old); diff != "" {
			t.Fatalf("%s %s: the old object changed (-want +got)\n%s", pt, data, diff)
		}
		if !ok {
			continue
		}
		p.warnings = nil
		want, err := p.patchWhole(old)
		if err != nil || len(p.warnings) > 0 {
			t.Fatalf("%s %s: patched %s; the whole: %v, warnings %v", pt, data, name, err, p.warnings)
		}
		clean(want)
		clean(got)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			text, _ := json.Marshal(old)
			t.Fatalf("%s %s of %s (-whole +%s):\n%s", pt, data, text, name, diff)
		}
	}
}

// drawObject fills an object with few, short values, so that a patch often meets them.
func drawObject(t *rapid.T, obj Object) { drawValue(t, reflect.ValueOf(obj).Elem(), 0) }

var short = rapid.SampledFrom([]string{"a", "b", "c"})

// few draws the length of a list or a map.
func few(t *rapid.T) int { return rapid.IntRange(0, 2).Draw(t, "length") }

func drawValue(t *rapid.T, v reflect.Value, depth int) {
	switch at := v.Addr().Interface().(type) {
	case *metav1.TypeMeta, *metav1.FieldsV1, *[]metav1.ManagedFieldsEntry:
		return
	case *metav1.Time:
		*at = metav1.Unix(1e9, 0)
		return
	case *metav1.MicroTime:
		*at = metav1.NewMicroTime(metav1.Unix(1e9, 0).Time)
		return
	case *metav1.Duration:
		return
	case *apiresource.Quantity:
		*at = apiresource.MustParse(rapid.SampledFrom([]string{"1", "2Gi"}).Draw(t, "quantity"))
		return
	case *intstr.IntOrString:
		*at = intstr.FromString(short.Draw(t, "port"))
		return
	case *runtime.RawExtension:
		at.Raw = []byte(`{"a":1}`)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 8 && rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			drawValue(t, v.Elem(), depth+1)
		}
	case reflect.Struct:
		drawStruct(t, v, depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || depth > 8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), few(t), 2))
		for i := range v.Len() {
			drawValue(t, v.Index(i), depth+1)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Slice && v.Type().Elem().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range few(t) {
			elem := reflect.New(v.Type().Elem()).Elem()
			drawValue(t, elem, depth+1)
			v.SetMapIndex(reflect.ValueOf(short.Draw(t, "key")).Convert(v.Type().Key()), elem)
		}
	case reflect.String:
		v.SetString(short.Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		if v.CanInt() {
			v.SetInt(int64(rapid.IntRange(1, 2).Draw(t, "int")))
		}
	}
}

// drawStruct fills some of a struct's fields. Below the parts of an object few of them are filled
// with further structs.
func drawStruct(t *rapid.T, v reflect.Value, depth int) {
	deep, draws := 0, 4
	switch {
	case v.NumField() == 0:
		return
	case depth < 2:
		draws = 8
	}
	for range draws {
		i := rapid.IntRange(0, v.NumField()-1).Draw(t, "field")
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if k := v.Field(i).Kind(); k == reflect.Pointer || k == reflect.Struct || k == reflect.Slice {
			if deep++; deep > 2 && depth > 1 {
				continue
			}
		}
		drawValue(t, v.Field(i), depth+1)
	}
}

// drawPatch returns a patch that sets fields as they are in an object, removes some, and has
// directives if it is a strategic one.
func drawPatch(t *rapid.T, obj Object, strategic bool) []byte {
	doc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	disturb(t, doc, strategic)
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// directives are directives of a strategic merge patch about a map.
var directives = []string{"replace", "merge", "delete"}

// disturb changes a patch here and there.
func disturb(t *rapid.T, patch map[string]any, strategic bool) {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		switch v := patch[name].(type) {
		case map[string]any:
			disturb(t, v, strategic)
		case []any:
			for i := range v {
				if elem, ok := v[i].(map[string]any); ok {
					disturb(t, elem, strategic)
				}
			}
			if order := order(name, v); order != nil && strategic && rarely(t) {
				patch["$setElementOrder/"+name] = order
			} else if strategic && rarely(t) {
				// with both, the result depends on the order in which apimachinery reads the map
				patch["$deleteFromPrimitiveList/"+name] = v
				delete(patch, name)
			}
		}
		if _, ok := patch[name]; ok && rarely(t) {
			patch[name] = nil
		}
	}
	if !strategic || !rarely(t) {
		return
	}
	if rapid.Bool().Draw(t, "retain") {
		names := []any{}
		for _, name := range slices.Sorted(maps.Keys(patch)) {
			names = append(names, name)
		}
		patch["$retainKeys"] = names
		return
	}
	patch["$patch"] = rapid.SampledFrom(directives).Draw(t, "directive")
}

func rarely(t *rapid.T) bool { return rapid.IntRange(0, 11).Draw(t, "rarely") == 11 }

// mergeKeys has the merge keys of lists of maps that may be ordered. Apimachinery's function panics
// if such a list has no merge key.
var mergeKeys = map[string]string{"containers": "name", "ownerReferences": "uid"}

// order returns a list for the directive $setElementOrder, or nil.
func order(name string, list []any) []any {
	var out []any
	for _, elem := range list {
		switch v := elem.(type) {
		case string:
			out = append(out, v)
		case map[string]any:
			if key := mergeKeys[name]; key != "" {
				out = append(out, map[string]any{key: v[key]})
			}
		}
	}
	return out
}
