package fake

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Patching the named parts gives the same as patching the whole, error or object.
func TestPatchOfPartsEqualsPatchOfTheWhole(t *testing.T) {
	k := kindsByResource("nodes")
	old := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "1", "b": "2"},
			Annotations: map[string]string{"x": "y"}, Finalizers: []string{"f/1", "f/2"},
		},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.0.0.0/24",
			Taints:  []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			VolumesInUse:    []corev1.UniqueVolumeName{"v/1"},
			VolumesAttached: []corev1.AttachedVolume{{Name: "v/1"}, {Name: "v/2"}},
		},
	}
	pieces := map[string][]string{
		"metadata": {
			`{"labels":{"a":null,"c":"3"}}`, `{"finalizers":["f/3"]}`, `{"$deleteFromPrimitiveList/finalizers":["f/1"]}`,
			`{"annotations":null}`, `{"resourceVersion":"7","uid":"u"}`, `{"labels":{"a":7}}`, `{"Labels":{"z":"z"}}`, `{}`,
			`{"$setElementOrder/finalizers":["f/2","f/1"],"finalizers":["f/2","f/1"]}`,
		},
		"spec": {
			`{"unschedulable":true}`, `{"taints":null}`, `{"taints":[{"key":"l","effect":"NoExecute"}]}`, `{"podCIDR":null}`,
			`{"$patch":"replace","unschedulable":true}`, `{"taints":{}}`,
		},
		"status": {
			`{"volumesInUse":null}`, `{"volumesInUse":["v/3"]}`, `{"volumesAttached":[{"name":"v/3","devicePath":""}]}`,
			`{"conditions":[{"type":"Ready","status":"False"}]}`, `{"conditions":[{"type":"Old","$patch":"delete"}]}`,
			`{"conditions":[{"status":"False"}]}`, `{"capacity":{"cpu":"4"}}`, `{"capacity":{"cpu":"much"}}`,
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		patch := map[string]json.RawMessage{}
		for _, name := range []string{"metadata", "spec", "status"} {
			if rapid.Bool().Draw(t, name+" is patched") {
				patch[name] = json.RawMessage(rapid.SampledFrom(pieces[name]).Draw(t, name))
			}
		}
		data, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		for _, pt := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			p := patchRequest{r: ResourceClient{kind: k, version: "v1"}, pt: pt, data: data}
			byParts, ok := p.patchParts(old)
			whole, err := p.patchWhole(old)
			if plain := err == nil && len(p.warnings) == 0; plain != ok {
				t.Fatalf("%s %s: patched by parts: %v; the whole: %v, warnings %v", pt, data, ok, err, p.warnings)
			}
			if ok {
				clean(whole)
				clean(byParts)
				if diff := cmp.Diff(whole, byParts); diff != "" {
					t.Fatalf("%s %s (-whole +by parts):\n%s", pt, data, diff)
				}
			}
		}
	})
}

func TestPatchOfTheWholeWhereNeeded(t *testing.T) {
	r := ResourceClient{kind: kindsByResource("nodes"), version: "v1"}
	for _, data := range []string{`[]`, `{"spec":null}`, `{"kind":"Node"}`, `{"$patch":"replace","spec":{}}`, `{"spec":[]}`, `x`} {
		p := patchRequest{r: r, pt: types.MergePatchType, data: []byte(data)}
		if _, ok := p.patchParts(&corev1.Node{}); ok {
			t.Errorf("%s was patched by parts", data)
		}
	}
	p := patchRequest{r: r, pt: types.JSONPatchType, data: []byte(`{}`)}
	if _, ok := p.patchParts(&corev1.Node{}); ok {
		t.Error("a JSON patch was patched by parts")
	}
}

func kindsByResource(resource string) *kind {
	for _, k := range kinds {
		if k.resource == resource {
			return k
		}
	}
	panic(resource)
}
