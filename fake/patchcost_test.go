package fake_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// nested returns a map in a map, n levels deep, around a value.
func nested(n int, value string) string {
	return strings.Repeat(`{"a":`, n) + value + strings.Repeat("}", n)
}

// joined joins n texts with commas.
func joined(n int, text func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = text(i)
	}
	return strings.Join(all, ",")
}

// A patch that costs much more than it takes to send is refused.
func TestCostlyPatches(t *testing.T) {
	wide := `"` + strings.Repeat("x", 500_000) + `"`
	const copied = "the server rejected our request due to an error in our request"
	const levels = "Request entity too large: The allowed maximum of bytes times levels in a "
	for _, test := range []struct {
		name  string
		kind  types.PatchType
		patch string
		code  int32 // 0: accepted
		want  string
	}{
		{
			"copies that double", types.JSONPatchType,
			"[" + joined(22, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/spec","path":"/spec/%d"}`, i) }) + "]", 422, copied,
		},
		{
			"copies", types.JSONPatchType,
			"[" + joined(6, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/spec","path":"/spec/%d"}`, i) }) + "]", 0, "",
		},
		{"a deep merge", types.MergePatchType, `{"spec":` + nested(9000, wide) + `}`, 413, levels + "merge patch is 268435456, got "},
		{"a wide merge", types.MergePatchType, `{"spec":` + nested(50, wide) + `}`, 0, ""},
		{"a deep and narrow merge", types.MergePatchType, `{"spec":` + nested(1000, `1`) + `}`, 0, ""},
		{
			"a deep path", types.JSONPatchType,
			`[{"op":"add","path":"/spec/b","value":` + nested(9000, wide) + `},` +
				`{"op":"add","path":"/spec/b` + strings.Repeat("/a", 8000) + `","value":1}]`, 413, levels + "JSON patch is 268435456, got ",
		},
		{
			"a deep path to move from", types.JSONPatchType,
			`[{"op":"add","path":"/spec/b","value":` + nested(9000, wide) + `},` +
				`{"op":"move","path":"/spec/c","from":"/spec/b` + strings.Repeat("/a", 8000) + `"}]`, 413, levels + "JSON patch is 268435456, got ",
		},
		{
			"a deep test", types.JSONPatchType,
			`[{"op":"add","path":"/spec/b","value":` + nested(9000, wide) + `},` +
				`{"op":"test","path":"/spec/b","value":` + nested(9000, wide) + `}]`, 413, levels + "JSON patch is 268435456, got ",
		},
		{
			"insertions", types.JSONPatchType, `[{"op":"add","path":"/spec/b","value":[` + joined(100_000, func(int) string { return "1" }) + `]},` +
				joined(5000, func(int) string { return `{"op":"add","path":"/spec/b/0","value":1}` }) + `]`, 413,
			"Request entity too large: The allowed maximum of elements times insertions in a JSON patch is 268435456, got ",
		},
		{
			"additions at the end", types.JSONPatchType, `[{"op":"add","path":"/spec/b","value":[1]},` +
				joined(5000, func(int) string { return `{"op":"add","path":"/spec/b/-","value":1}` }) + `]`, 0, "",
		},
		{
			"many fields to apply", types.ApplyYAMLPatchType, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},` +
				`"spec":{` + joined(20_001, func(i int) string { return fmt.Sprintf(`"f%d":1`, i) }) + `}}`, 413,
			"Request entity too large: The allowed maximum of members of a map or a list in server-side apply is 20000, got 20001",
		},
		{
			"deep fields to apply", types.ApplyYAMLPatchType, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},` +
				`"spec":` + nested(9000, "1") + `}`, 413,
			"Request entity too large: The allowed maximum of values times levels in server-side apply is 32000000, got 40513506",
		},
		{
			"fields to apply at a usual depth", types.ApplyYAMLPatchType, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},` +
				`"spec":` + nested(500, "1") + `}`, 0, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.Server.Install(fake.CustomKind{
				Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Kind: "Widget", Namespaced: true,
			})
			c := w.resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
			obj := &fake.CustomObject{
				ObjectMeta: metav1.ObjectMeta{Name: "a"}, Content: map[string]any{"spec": map[string]any{"x": "1"}},
			}
			testcheck.Must(c.Create(w.Context(), obj, metav1.CreateOptions{}))
			_, err := c.Patch(w.Context(), "a", test.kind, []byte(test.patch), metav1.PatchOptions{FieldManager: "m"})
			if test.code == 0 {
				testcheck.NoError(t, err)
				return
			}
			status, ok := err.(apierrors.APIStatus)
			if !ok || status.Status().Code != test.code || !strings.HasPrefix(status.Status().Message, test.want) {
				t.Errorf("got %.300v; want %d %s", err, test.code, test.want)
			}
		})
	}
}

// A strategic merge patch compares all elements of a list.
func TestCostlyStrategicPatch(t *testing.T) {
	finalizers := func(n int) string {
		return joined(n, func(i int) string { return fmt.Sprintf(`"example.com/f%d"`, i) })
	}
	w := newWorld(t)
	c := w.configMaps()
	testcheck.Must(c.Create(w.Context(), newConfigMap("a", nil), metav1.CreateOptions{}))
	patch := func(kind types.PatchType, patch string) error {
		_, err := c.Patch(w.Context(), "a", kind, []byte(patch), metav1.PatchOptions{})
		return err
	}
	err := patch(types.StrategicMergePatchType, `{"metadata":{"finalizers":[`+finalizers(10_001)+`]}}`)
	expectError(t, err, apierrors.IsRequestEntityTooLargeError, "elements of a list in a strategic merge patch is 10000, got 10001")
	testcheck.NoError(t, patch(types.MergePatchType, `{"metadata":{"finalizers":[`+finalizers(10_001)+`]}}`))
	err = patch(types.StrategicMergePatchType, `{"metadata":{"finalizers":["example.com/g"]}}`)
	expectError(t, err, apierrors.IsRequestEntityTooLargeError, "elements of a list in a strategic merge patch is 10000, got 10001")
	testcheck.NoError(t, patch(types.StrategicMergePatchType, `{"metadata":{"labels":{"a":"b"}}}`))
	testcheck.NoError(t, patch(types.MergePatchType, `{"metadata":{"finalizers":null}}`))
}

// Many labels, finalizers and owners, and many errors about them, take time linear in their number.
func TestLargeMetadata(t *testing.T) {
	labels := joined(100_000, func(i int) string { return fmt.Sprintf(`"l%d":"v"`, i) })
	for _, test := range []struct {
		name  string
		kind  types.PatchType
		patch string
		want  int32
	}{
		{"labels", types.MergePatchType, `{"metadata":{"labels":{` + labels + `}}}`, 0},
		{"labels, strategically", types.StrategicMergePatchType, `{"metadata":{"labels":{` + labels + `}}}`, 0},
		{"unknown fields", types.MergePatchType, `{` + labels + `}`, 0},
		{"finalizers", types.MergePatchType, `{"metadata":{"finalizers":[` + joined(50_000, func(i int) string { return fmt.Sprintf(`"e.x/%d"`, i) }) + `]}}`, 0},
		{"owners", types.MergePatchType, `{"metadata":{"ownerReferences":[` + joined(20_000, func(i int) string {
			return fmt.Sprintf(`{"apiVersion":"v1","kind":"K","name":"n","uid":"%d"}`, i)
		}) + `]}}`, 0},
		{"wrong labels", types.MergePatchType, `{"metadata":{"labels":{` +
			joined(100_000, func(i int) string { return fmt.Sprintf(`"l%d":"/"`, i) }) + `}}}`, 422},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			c := w.configMaps()
			testcheck.Must(c.Create(w.Context(), newConfigMap("a", nil), metav1.CreateOptions{}))
			_, err := c.Patch(w.Context(), "a", test.kind, []byte(test.patch), metav1.PatchOptions{})
			status, ok := err.(apierrors.APIStatus)
			if test.want == 0 && err != nil || test.want != 0 && (!ok || status.Status().Code != test.want) {
				t.Errorf("got %.300v; want %d", err, test.want)
			}
		})
	}
}
