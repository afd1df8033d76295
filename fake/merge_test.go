package fake

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// richPod returns a pod with every sort of field that a patch can change.
func richPod() *corev1.Pod {
	always := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "n", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "1", "b": "2"},
			Finalizers: []string{"f/1", "f/2", "f/3"}, CreationTimestamp: metav1.Unix(1e9, 0),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "o"}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "a", Image: "i", Env: []corev1.EnvVar{{Name: "X", Value: "1"}, {Name: "Y", Value: "2"}}},
				{Name: "b", Image: "j", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")},
				}},
				{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 80}}},
			},
			TerminationGracePeriodSeconds: &always,
			SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{
				Name:  "s",
				Value: "v",
			}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "R"},
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1e9, 0)},
			},
		},
	}
}

// podPatches are pieces of patches of richPod, by part.
var podPatches = map[string][]string{
	"metadata": {
		`{"labels":{"a":null,"c":"3"}}`, `{"labels":null,"annotations":{"x":null}}`, `{"finalizers":["f/4","f/2"]}`,
		`{"finalizers":["f/3","f/3"]}`, `{"finalizers":[]}`, `{"finalizers":["f/3","f/1"]}`, `{"uid":"u","resourceVersion":"7"}`,
		`{"creationTimestamp":"2026-01-01T00:00:00Z"}`, `{"creationTimestamp":null}`, `{"creationTimestamp":"soon"}`,
		`{"deletionTimestamp":"2026-01-01T02:00:00+02:00"}`, `{"generation":3}`, `{"generation":3.5}`, `{"generation":"3"}`,
		`{"labels":{"a":7}}`, `{"Labels":{}}`, `{"ownerReferences":[{"uid":"o","name":"m"},{"uid":"q","kind":"Pod"}]}`,
		`{"labels":{"$patch":"replace","z":"z"}}`, `{"name":null}`, `{"managedFields":[{"manager":"m"}]}`,
	},
	"spec": {
		`{"nodeName":"x","terminationGracePeriodSeconds":5}`, `{"terminationGracePeriodSeconds":null,"priority":1}`,
		`{"priority":4000000000}`, `{"securityContext":{"runAsNonRoot":true}}`, `{"securityContext":null}`,
		`{"securityContext":{"sysctls":null,"seLinuxOptions":{"user":null}}}`, `{"affinity":{}}`, `{"affinity":{"nodeAffinity":null}}`,
		`{"containers":[{"name":"c","image":"k"},{"name":"d"},{"name":"a","env":[{"name":"Z","value":"3"},{"name":"X","value":"4"}]}]}`,
		`{"containers":[{"name":"b","resources":{"requests":{"memory":"1Gi","cpu":2}}}]}`,
		`{"containers":[{"name":"b","resources":{"requests":{"cpu":null}}}]}`, `{"containers":[{"name":"n","resources":{"requests":{"cpu":null}}}]}`,
		`{"tolerations":[{"key":"k","tolerationSeconds":null,"effect":null}],"nodeSelector":{"a":null}}`, `{"containers":[{"image":"k"}]}`,
		`{"containers":[{"name":"c","ports":[{"containerPort":81}]}]}`, `{"containers":[null]}`, `{"containers":[]}`,
		`{"containers":[{"name":"e"},{"name":"e"}]}`, `{"containers":[{"name":"b","$patch":"delete"}]}`,
		`{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Mi"}}]}`, `{"volumes":[{"name":"v","emptyDir":{}},{"name":"v"}]}`,
		`{"nodeSelector":{"a":"b"},"overhead":{"cpu":"x"}}`, `{"containers":{}}`, `{"containers":"a"}`, `{"hostNetwork":"yes"}`,
		`{"containers":[{"name":"a","livenessProbe":{"httpGet":{"port":80}}},{"name":"b","livenessProbe":{"httpGet":{"port":"web"}}}]}`,
		`{"$setElementOrder/containers":[{"name":"b"},{"name":"a"},{"name":"c"}]}`, `{"unknown":1}`,
	},
	"status": {
		`{"conditions":[{"type":"Initialized","status":"False"},{"type":"New"},{"type":"PodScheduled","reason":"Q"}]}`,
		`{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-01T00:00:00Z","reason":null}]}`, `{"phase":"Running"}`,
		`{"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{"name":"a","ready":true,"state":{"running":{"startedAt":null}}}]}`,
		`{"conditions":[{"type":"Ready","lastProbeTime":null,"reason":null},{"type":"New","lastProbeTime":null},{"type":"Z","status":null}]}`,
		`{"containerStatuses":[{"name":"a","allocatedResources":{"cpu":null},"state":null}]}`, `{"podIPs":[null]}`, `{"conditions":[null]}`,
		`{"containerStatuses":[{"name":"a","restartCount":2,"allocatedResources":{"cpu":"1"}}],"phase":null}`, `{"podIPs":[{"ip":"1"}]}`,
	},
}

// Merging in place gives the same as patching the whole, or declines.
func TestMergeInPlaceEqualsPatchOfTheWhole(t *testing.T) {
	r := ResourceClient{kind: kindsByResource("pods"), version: "v1"}
	rapid.Check(t, func(t *rapid.T) {
		patch := map[string]json.RawMessage{}
		for _, name := range []string{"metadata", "spec", "status"} {
			if rapid.Bool().Draw(t, name+" is patched") {
				patch[name] = json.RawMessage(rapid.SampledFrom(podPatches[name]).Draw(t, name))
			}
		}
		data, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		for _, pt := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			p := patchRequest{r: r, pt: pt, data: data}
			old := richPod()
			merged, ok := p.patchInPlace(old)
			if diff := cmp.Diff(richPod(), old); diff != "" {
				t.Fatalf("%s %s: the old object changed (-want +got)\n%s", pt, data, diff)
			}
			whole, err := p.patchWhole(old)
			if !ok {
				continue
			}
			if err != nil || len(p.warnings) > 0 {
				t.Fatalf("%s %s: merged in place; the whole: %v, warnings %v", pt, data, err, p.warnings)
			}
			clean(whole)
			clean(merged)
			if diff := cmp.Diff(whole, merged); diff != "" {
				t.Fatalf("%s %s (-whole +in place):\n%s", pt, data, diff)
			}
		}
	})
}

// Patches that controllers send are merged in place.
func TestCommonPatchesAreMergedInPlace(t *testing.T) {
	merge, strategic := types.MergePatchType, types.StrategicMergePatchType
	for _, tt := range []struct {
		name string
		old  Object
		pt   types.PatchType
		data string
		want func(Object)
	}{
		{
			"annotations and finalizers", richPod(), merge, `{"metadata":{"annotations":{"x":"y"},"finalizers":["f/1"]}}`,
			func(obj Object) {
				obj.SetAnnotations(map[string]string{"x": "y"})
				obj.SetFinalizers([]string{"f/1"})
			},
		},
		{
			"finalizers that are added", richPod(), strategic, `{"metadata":{"finalizers":["f/0","f/2"]}}`,
			func(obj Object) { obj.SetFinalizers([]string{"f/0", "f/1", "f/2", "f/3"}) },
		},
		{
			"conditions", richPod(), strategic, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"},{"type":"New"}]}}`,
			func(obj Object) {
				is := &obj.(*corev1.Pod).Status
				is.Phase = corev1.PodRunning
				is.Conditions[1].Status = corev1.ConditionTrue
				is.Conditions = []corev1.PodCondition{
					is.Conditions[0], is.Conditions[1],
					{Type: "New"},
					is.Conditions[2],
				}
			},
		},
		{
			"count of an event", &corev1.Event{
				Count:  1,
				Reason: "R",
			}, strategic, `{"count":2,"lastTimestamp":"2026-01-01T00:00:00Z"}`,
			func(obj Object) {
				e := obj.(*corev1.Event)
				e.Count, e.LastTimestamp = 2, metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := kindsByResource("pods")
			if _, event := tt.old.(*corev1.Event); event {
				k = kindsByResource("events")
			}
			p := patchRequest{r: ResourceClient{kind: k, version: "v1"}, pt: tt.pt, data: []byte(tt.data)}
			got, ok := p.patchInPlace(tt.old)
			want := k.copy(tt.old)
			tt.want(want)
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Errorf("merged in place: %v (-want +got)\n%s", ok, diff)
			}
		})
	}
}

// A JSON patch of finalizers gives the same as on the whole object, or is declined.
func TestFinalizerPatchEqualsPatchOfTheWhole(t *testing.T) {
	r := ResourceClient{kind: kindsByResource("pods"), version: "v1"}
	ops := rapid.SampledFrom([]string{
		`{"op":"add","path":"/metadata/finalizers/-","value":"f/9"}`, `{"op":"remove","path":"/metadata/finalizers/0"}`,
		`{"op":"test","path":"/metadata/finalizers/1","value":"f/2"}`, `{"op":"test","path":"/metadata/uid","value":"other"}`,
		`{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}`, `{"op":"add","path":"/metadata/annotations/z","value":"z"}`,
		`{"op":"replace","path":"/metadata/labels/a","value":7}`, `{"op":"remove","path":"/metadata/none"}`,
		`{"op":"add","path":"/metadata/none","value":1}`, `{"op":"add","path":"/metadata/labels/c","value":"3","extra":1}`,
		`{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/d"}`, `{"op":"add","path":"/metadata"}`,
		`{"op":"copy","from":"/spec/nodeName","path":"/metadata/labels/n"}`, `{"op":"replace","path":"/spec/priority","value":1}`,
		`{"op":"test","path":"/metadata/annotations","value":null}`, `{"op":"odd","path":"/metadata/labels"}`, `{}`,
		`{"op":"test","path":"/metadata/finalizers"}`, `{"op":"test","path":"/metadata/finalizers/00","value":"f/1"}`,
		`{"op":"add","path":"/metadata/finalizers","value":["f/7","f/8"]}`, `{"op":"add","path":"/metadata/finalizers","value":[]}`,
		`{"op":"add","path":"/metadata/finalizers/-"}`, `{"op":"add","path":"/metadata/finalizers/1","value":"f/5"}`,
		`{"op":"remove","path":"/metadata/finalizers"}`, `{"op":"remove","path":"/metadata/finalizers/-1"}`,
		`{"op":"test","path":"/metadata/finalizers","value":null}`, `{"op":"remove","path":"/metadata/finalizersX"}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		data := "[" + strings.Join(rapid.SliceOfN(ops, 0, 3).Draw(t, "operations"), ",") + "]"
		p := patchRequest{r: r, pt: types.JSONPatchType, data: []byte(data)}
		old := richPod()
		if rapid.Bool().Draw(t, "without finalizers") {
			old.Finalizers = nil
		}
		bare, ok := p.patchFinalizers(old)
		if !ok {
			return
		}
		whole, err := p.patchWhole(old)
		if err != nil || len(p.warnings) > 0 {
			t.Fatalf("%s: patched by itself; the whole: %v, warnings %v", data, err, p.warnings)
		}
		clean(whole)
		clean(bare)
		if diff := cmp.Diff(whole, bare); diff != "" {
			t.Fatalf("%s (-whole +finalizers)\n%s", data, diff)
		}
	})
	p := patchRequest{r: r, pt: types.JSONPatchType, data: []byte(`[{"op":"remove","path":"/metadata/finalizers/1"}]`)}
	if obj, ok := p.patchFinalizers(richPod()); !ok || len(obj.GetFinalizers()) != 2 {
		t.Errorf("taking a finalizer away: %v, %v", obj, ok)
	}
}
