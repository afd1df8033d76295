package fake_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// The response to any patch is an object or a status.
func FuzzPatch(f *testing.F) {
	for i, seed := range []string{
		`{"metadata":{"labels":{"a":null},"finalizers":["a/b"],"ownerReferences":[{"uid":"u"}]},"data":{"x":"y"}}`,
		`{"metadata":{"$setElementOrder/finalizers":["a"],"$deleteFromPrimitiveList/finalizers":["b"],"$patch":"replace","$retainKeys":["c"]}}`,
		`{"metadata":{"$setElementOrder/managedFields":[{}],"managedFields":[]}}`,
		`[{"op":"replace","path":"/metadata/annotations","value":{}},{"op":"add","path":"/data/-","value":1},{"op":"copy","from":"/data","path":"/x"}]`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y}\n",
		`{"metadata":{"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]}}`,
		`[]`, `{`, ``, `null`, `{"metadata":{"resourceVersion":"x","creationTimestamp":"y"}}`, `{"kind":7,"apiVersion":"a/b/c"}`,
	} {
		f.Add(uint8(i), false, []byte(seed))
		f.Add(uint8(i), true, []byte(seed))
	}
	kinds := []types.PatchType{
		types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType,
		types.ApplyYAMLPatchType,
	}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	f.Fuzz(func(t *testing.T, kind uint8, custom bool, data []byte) {
		w := newWorldWith(t, fake.Config{TrackManagedFields: true})
		w.Server.Install(fake.CustomKind{
			Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true,
		})
		c := w.configMaps()
		var obj fake.Object = newConfigMap("a", map[string]string{"x": "1"})
		if custom {
			c = w.resource(widgets)
			obj = &fake.CustomObject{
				ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Content:    map[string]any{"data": map[string]any{"x": "1"}},
			}
		}
		testcheck.Must(c.Create(w.Context(), obj, metav1.CreateOptions{}))
		opts := metav1.PatchOptions{FieldManager: "m"}
		done, err := c.Patch(w.Context(), "a", kinds[kind%4], data, opts)
		var status apierrors.APIStatus
		if err != nil && (!errors.As(err, &status) || status.Status().Code < 400) {
			t.Fatalf("%s: %v", data, err)
		}
		if err == nil && done.Object == nil {
			t.Fatalf("%s: no object", data)
		}
	})
}
