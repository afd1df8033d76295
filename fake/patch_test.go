package fake_test

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

func TestPatch(t *testing.T) {
	for _, test := range []struct {
		name  string
		kind  types.PatchType
		patch string
		want  string // labels and finalizers
		is    func(error) bool
		says  string
	}{
		{
			name: "merge", kind: types.MergePatchType, patch: `{"metadata":{"labels":{"app":null,"n":"1"}}}`,
			want: "n=1 kubernetes.io/pvc-protection",
		},
		{
			name: "merge replaces lists", kind: types.MergePatchType, patch: `{"metadata":{"finalizers":["a/b"]}}`,
			want: "app=db a/b",
		},
		{
			name: "strategic merges lists", kind: types.StrategicMergePatchType, patch: `{"metadata":{"finalizers":["a/b"]}}`,
			want: "app=db a/b kubernetes.io/pvc-protection",
		},
		{
			name: "strategic removes from lists", kind: types.StrategicMergePatchType,
			patch: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pvc-protection"],"$setElementOrder/finalizers":[]}}`, want: "app=db ",
		},
		{
			name: "json", kind: types.JSONPatchType, patch: `[{"op":"add","path":"/metadata/finalizers/-","value":"a/b"}]`,
			want: "app=db kubernetes.io/pvc-protection a/b",
		},
		{
			name: "json replaces what is missing", kind: types.JSONPatchType,
			patch: `[{"op":"replace","path":"/metadata/annotations","value":{"x":"y"}}]`, want: "app=db kubernetes.io/pvc-protection",
		},
		{
			name: "json tests for null what is missing", kind: types.JSONPatchType,
			patch: `[{"op":"test","path":"/metadata/annotations","value":null}]`, want: "app=db kubernetes.io/pvc-protection",
		},
		{
			name: "json test fails", kind: types.JSONPatchType, patch: `[{"op":"test","path":"/metadata/name","value":"b"}]`,
			is: apierrors.IsInvalid, says: "the server rejected our request due to an error in our request",
		},
		{
			name: "json removes what is missing", kind: types.JSONPatchType,
			patch: `[{"op":"remove","path":"/metadata/annotations"}]`, is: apierrors.IsInvalid, says: "the server rejected our request",
		},
		{
			name: "json adds to a missing list", kind: types.JSONPatchType,
			patch: `[{"op":"add","path":"/metadata/ownerReferences/-","value":{}}]`, is: apierrors.IsInvalid, says: "the server rejected our request",
		},
		{name: "invalid json", kind: types.MergePatchType, patch: `{`, is: apierrors.IsBadRequest, says: ""},
		{
			name: "wrong type", kind: types.MergePatchType, patch: `{"spec":{"accessModes":1}}`, is: apierrors.IsInvalid,
			says: "cannot unmarshal",
		},
		{
			name: "another name", kind: types.MergePatchType, patch: `{"metadata":{"name":"b"}}`, is: apierrors.IsBadRequest,
			says: "the name of the object (b) does not match the name on the URL (a)",
		},
		{
			name: "another UID", kind: types.MergePatchType, patch: `{"metadata":{"uid":"b"}}`, is: apierrors.IsInvalid,
			says: "metadata.uid: Invalid value: \"b\": field is immutable",
		},
		{
			name: "stale", kind: types.StrategicMergePatchType, patch: `{"metadata":{"resourceVersion":"1"}}`,
			is: apierrors.IsConflict, says: "the object has been modified",
		},
		{
			name: "status through main", kind: types.MergePatchType, patch: `{"status":{"phase":"Bound"}}`,
			want: "app=db kubernetes.io/pvc-protection",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.create("a")
			c, err := w.claims.Patch(w.Context(), "a", test.kind, []byte(test.patch), metav1.PatchOptions{})
			if test.is != nil {
				expectError(t, err, test.is, test.says)
				return
			}
			expect(t, err, nil)
			got := ""
			for k, v := range c.Labels {
				got += k + "=" + v + " "
			}
			expect(t, got+strings.Join(c.Finalizers, " "), test.want)
			expect(t, c.Status.Phase, corev1.ClaimPending)
		})
	}
}

// The errors are those of the real server. If one contains the patched object, only the text after
// it is compared.
func TestPatchErrors(t *testing.T) {
	const generic = "the server rejected our request due to an error in our request"
	many := "[" + strings.Repeat(`{"op":"test","path":"/metadata/name","value":"a"},`,
		10_000) + `{"op":"test","path":"/kind","value":"ConfigMap"}]`
	for _, test := range []struct {
		name       string
		kind       types.PatchType
		patch      string
		validation string
		code       int32
		want       string
	}{
		{"merge: nothing", types.MergePatchType, ``, "", 400, "error decoding patch: unexpected end of JSON input"},
		{
			"merge: a list", types.MergePatchType, `[]`, "", 400,
			"error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
		},
		{"merge: null", types.MergePatchType, `null`, "", 400, "Invalid JSON Patch"},
		{"merge: half, ignorantly", types.MergePatchType, `{`, "Ignore", 400, "Invalid JSON Patch"},
		{"merge: a string, ignorantly", types.MergePatchType, `"x"`, "Ignore", 400, "Invalid JSON Patch"},
		{
			"merge: a list, ignorantly", types.MergePatchType, `[]`, "Ignore", 422,
			` "" is invalid: patch: Invalid value: "[]": couldn't get version/kind; json parse error: ` +
				`json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`,
		},
		{
			"merge: another kind", types.MergePatchType, `{"kind":"Pod"}`, "", 422,
			`converting (v1.Pod) to (core.ConfigMap): unknown conversion`,
		},
		{
			"merge: another kind of other data", types.MergePatchType, `{"kind":"Secret"}`, "", 422,
			`illegal base64 data at input byte 0`,
		},
		{
			"merge: no such kind", types.MergePatchType, `{"kind":"Foo"}`, "", 422,
			`no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`,
		},
		{
			"merge: no name", types.MergePatchType, `{"metadata":null}`, "", 400,
			"the name of the object (a based on URL) was undeterminable: name must be provided",
		},
		{
			"merge: no version", types.MergePatchType, `{"apiVersion":null}`, "", 400,
			"the name of the object (a based on URL) was undeterminable: name must be provided",
		},
		{
			"merge: another namespace", types.MergePatchType, `{"metadata":{"namespace":"b"}}`, "", 400,
			"the namespace of the provided object does not match the namespace sent on the request",
		},
		{
			"merge: no resourceVersion", types.MergePatchType, `{"metadata":{"resourceVersion":"b"}}`, "", 500,
			`strconv.ParseUint: parsing "b": invalid syntax`,
		},
		{
			"merge: a wrong type", types.MergePatchType, `{"data":{"a":7}}`, "", 422,
			`json: cannot unmarshal number into Go struct field ConfigMap.data of type string`,
		},
		{
			"merge: unknown and double fields", types.MergePatchType, `{"x":1,"data":{"a":"b","a":"c"}}`, "Strict", 422,
			`strict decoding error: duplicate field "data.a", unknown field "x"`,
		},
		{"strategic: nothing", types.StrategicMergePatchType, ``, "", 400, "unexpected end of JSON input"},
		{
			"strategic: a list", types.StrategicMergePatchType, `[]`, "", 400,
			"json: cannot unmarshal array into Go value of type map[string]interface {}",
		},
		{
			"strategic: unknown and double fields", types.StrategicMergePatchType, `{"x":1,"data":{"a":"b","a":"c"}}`, "Strict", 422,
			` "" is invalid: patch: Invalid value: "map[data:map[a:c] x:1]": strict decoding error: duplicate field "data.a", unknown field "x"`,
		},
		{
			"strategic: a wrong type", types.StrategicMergePatchType, `{"data":{"a":7}}`, "", 422,
			` "" is invalid: patch: Invalid value: "map[data:map[a:7]]": cannot convert int64 to string`,
		},
		{"strategic: no list", types.StrategicMergePatchType, `{"metadata":{"finalizers":"a"}}`, "", 422, ` "" is invalid: patch: Invalid value: "map[metadata:map[finalizers:a]]": cannot restore slice from string`},
		{"strategic: order of no list", types.StrategicMergePatchType, `{"metadata":{"$setElementOrder/finalizers":"x"}}`, "", 500, "expected a []interface {}, but received a string"},
		{
			"strategic: another order", types.StrategicMergePatchType, `{"metadata":{"$setElementOrder/finalizers":["x"],"finalizers":["y"]}}`, "", 500,
			"The order in patch list:\n[y]\n doesn't match $setElementOrder list:\n[x]\n",
		},
		{
			"strategic: no such directive", types.StrategicMergePatchType, `{"metadata":{"$patch":"foo"}}`, "", 500,
			"unknown patch type: foo in map: map[$patch:foo]",
		},
		{
			"strategic: keys to retain", types.StrategicMergePatchType, `{"metadata":{"$retainKeys":"foo"}}`, "", 400,
			"invalid patch format of retainKeys",
		},
		{
			"strategic: order of maps without a key", types.StrategicMergePatchType,
			`{"metadata":{"$setElementOrder/managedFields":[{}],"managedFields":[]}}`, "", 400,
			"strategic merge patch cannot be merged: runtime error: hash of unhashable type map[string]interface {}",
		},
		{"json: half", types.JSONPatchType, `{`, "", 400, "error decoding patch: unexpected end of JSON input"},
		{
			"json: a map", types.JSONPatchType, `{}`, "", 400,
			"error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
		},
		{
			"json: a map, ignorantly", types.JSONPatchType, `{}`, "Ignore", 400,
			"json: cannot unmarshal object into Go value of type jsonpatch.Patch",
		},
		{"json: no operation", types.JSONPatchType, `[{"op":"foo","path":"/x"}]`, "", 422, generic},
		{"json: no path", types.JSONPatchType, `[{"op":"add"}]`, "", 422, generic},
		{
			"json: no parent", types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/x","value":"y"}]`, "",
			422, generic,
		},
		{
			"json: unknown fields", types.JSONPatchType, `[{"op":"add","path":"/x","value":"1","foo":1}]`, "Strict", 422,
			`strict decoding error: json patch unknown field "[0].foo", unknown field "x"`,
		},
		{
			"json: too many", types.JSONPatchType, many, "", 413,
			"Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
		},
		{"no such type", "application/foo", `{}`, "", 415, "415: Unsupported Media Type"},
		{"apply in CBOR", types.ApplyCBORPatchType, `{}`, "", 415, "415: Unsupported Media Type"},
		{
			"no such validation", types.MergePatchType, `{}`, "foo", 422,
			`PatchOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "foo": supported values: "", "Ignore", "Strict", "Warn"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			testcheck.Must(w.maps().Create(w.Context(), newConfigMap("a", map[string]string{"a": "1"}),
				metav1.CreateOptions{}))
			before := w.Server.Revision()
			_, err := w.configMaps().Patch(w.Context(), "a", test.kind, []byte(test.patch),
				metav1.PatchOptions{FieldValidation: test.validation})
			expectStatus(t, err, test.code, test.want)
			expect(t, w.Server.Revision(), before)
		})
	}
}

// TestPatchOrdersMapsWithoutAKey orders a list of maps that has no merge key.
func TestPatchOrdersMapsWithoutAKey(t *testing.T) {
	for _, patch := range []string{
		`{"spec":{"$setElementOrder/tolerations":[{"key":"a"}]}}`,
		`{"spec":{"$setElementOrder/tolerations":[{"key":"a"}],"tolerations":[{"key":"a"}]}}`,
		`{"spec":{"$setElementOrder/tolerations":[{"key":"b"}],"tolerations":[]}}`,
		`{"spec":{"$setElementOrder/volumes":[{"name":{}}],"volumes":[{"name":{}}]}}`,
	} {
		w := newWorld(t)
		pods := w.User.CoreV1().Pods("default")
		pod := newPod("a")
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
		testcheck.Must(pods.Create(w.Context(), pod, metav1.CreateOptions{}))
		before := w.Server.Revision()
		_, err := pods.Patch(w.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), "strategic merge patch cannot be merged: runtime error: ") {
			t.Errorf("%s: %v", patch, err)
		}
		expect(t, w.Server.Revision(), before)
	}
}

func TestPatchWarnsOfUnknownFields(t *testing.T) {
	for _, test := range []struct {
		name       string
		kind       types.PatchType
		patch      string
		validation string
		want       []string
	}{
		{
			"merge", types.MergePatchType, `{"x":1,"data":{"a":"b","a":"c"}}`, "",
			[]string{`duplicate field "data.a"`, `unknown field "x"`},
		},
		{
			"strategic", types.StrategicMergePatchType, `{"x":1,"data":{"a":"b","a":"c"}}`, "Warn",
			[]string{`duplicate field "data.a"`, `unknown field "x"`},
		},
		{
			"json", types.JSONPatchType, `[{"op":"add","path":"/metadata/x","value":"1","foo":1}]`, "",
			[]string{`json patch unknown field "[0].foo"`, `unknown field "metadata.x"`},
		},
		{"another case", types.MergePatchType, `{"Data":{"a":"b"}}`, "", []string{`unknown field "Data"`}},
		{"nobody wants to know", types.MergePatchType, `{"x":1}`, "Ignore", nil},
		{"nothing to apply", types.MergePatchType, `{"data":{"b":"c"}}`, "Strict", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			testcheck.Must(w.maps().Create(w.Context(), newConfigMap("a", map[string]string{"a": "1"}),
				metav1.CreateOptions{}))
			done := testcheck.Must(w.configMaps().Patch(w.Context(), "a", test.kind, []byte(test.patch),
				metav1.PatchOptions{FieldValidation: test.validation}))
			expect(t, done.Warnings, test.want)
		})
	}
}

func TestDuplicateOwners(t *testing.T) {
	const ref = `{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"}`
	const words = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: y"
	w := newWorld(t)
	config := newConfigMap("a", nil)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}
	config.OwnerReferences = []metav1.OwnerReference{owner, owner}
	done := testcheck.Must(w.configMaps().Create(w.Context(), config.DeepCopy(), metav1.CreateOptions{}))
	expect(t, done.Warnings, []string{".metadata.ownerReferences contains duplicate entries; " + words})
	done = testcheck.Must(w.configMaps().Update(w.Context(), "a", config.DeepCopy(), metav1.UpdateOptions{}))
	expect(t, done.Warnings, []string{".metadata.ownerReferences contains duplicate entries; " + words})
	done = testcheck.Must(w.configMaps().Patch(w.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"ownerReferences":[`+ref+`,`+ref+`]}}`), metav1.PatchOptions{}))
	expect(t, done.Warnings, []string{".metadata.ownerReferences contains duplicate entries after mutating admission happens; " + words})
	expect(t, done.Object.GetOwnerReferences(), []metav1.OwnerReference{owner})
}

func TestPatchOfCustomResources(t *testing.T) {
	const types415 = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	for _, test := range []struct {
		name  string
		kind  types.PatchType
		patch string
		code  int32
		want  string
	}{
		{"strategic", types.StrategicMergePatchType, `{}`, 415, types415},
		{
			"another kind", types.MergePatchType, `{"kind":"Foo"}`, 422,
			`Foo.example.com "a" is invalid: kind: Invalid value: "Foo": must be Widget`,
		},
		{
			"another version", types.MergePatchType, `{"apiVersion":"v1"}`, 422,
			`Widget "a" is invalid: apiVersion: Invalid value: "v1": must be example.com/v1`,
		},
		{
			"no version", types.MergePatchType, `{"apiVersion":null}`, 500,
			`Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'`,
		},
		{
			"wrong metadata", types.MergePatchType, `{"metadata":{"labels":{"a":7}}}`, 422,
			`json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`,
		},
		{
			"unknown fields", types.MergePatchType, `{"metadata":{"bar":1},"spec":{"foo":1}}`, 422,
			`strict decoding error: unknown field "metadata.bar", unknown field "spec.foo"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.Server.Install(fake.CustomKind{
				Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Kind: "Widget", Namespaced: true,
				UnknownFields: func(c *fake.CustomObject) []string {
					if spec, ok := c.Content["spec"].(map[string]any); ok && spec["foo"] != nil {
						return []string{"spec.foo"}
					}
					return nil
				},
			})
			c := w.resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
			obj := &fake.CustomObject{
				ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Content:    map[string]any{"spec": map[string]any{"size": int64(1)}},
			}
			testcheck.Must(c.Create(w.Context(), obj, metav1.CreateOptions{}))
			_, err := c.Patch(w.Context(), "a", test.kind, []byte(test.patch), metav1.PatchOptions{FieldValidation: "Strict"})
			expectStatus(t, err, test.code, test.want)
		})
	}
}

func TestPatchStatus(t *testing.T) {
	w := newWorld(t)
	w.create("a")
	c := w.patch("a", `{"spec":{"volumeName":"x"},"status":{"phase":"Bound"},"metadata":{"annotations":{"x":"y"}}}`,
		"status")
	expect(t, []string{string(c.Status.Phase), c.Spec.VolumeName, c.Annotations["x"]}, []string{"Bound", "", "y"})
	_, err := w.claims.Patch(w.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "scale")
	expectError(t, err, apierrors.IsNotFound, "the server could not find the requested resource")

	nodes := w.User.CoreV1().Nodes()
	testcheck.Must(nodes.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{}))
	testcheck.Must(nodes.PatchStatus(w.Context(), "n",
		[]byte(`{"status":{"volumesAttached":[{"name":"v","devicePath":""}]}}`)))
	n := testcheck.Must(nodes.PatchStatus(w.Context(), "n", []byte(`{"status":{"volumesInUse":["v"]}}`)))
	expect(t, n.Status, corev1.NodeStatus{
		VolumesAttached: []corev1.AttachedVolume{{Name: "v"}}, VolumesInUse: []corev1.UniqueVolumeName{"v"},
	})
}

func TestPatchOfTheLastFinalizerRemovesADeletedObject(t *testing.T) {
	w := newWorld(t)
	volumes := w.User.CoreV1().PersistentVolumes()
	testcheck.Must(volumes.Create(w.Context(), newVolume("v"), metav1.CreateOptions{}))
	expect(t, volumes.Delete(w.Context(), "v", metav1.DeleteOptions{}), nil)
	v := testcheck.Must(volumes.Patch(w.Context(), "v", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pv-protection"]}}`), metav1.PatchOptions{}))
	expect(t, v.Name, "v")
	_, ok := w.Server.Get("persistentvolumes", "", "v")
	expect(t, ok, false)
}

// A disruption budget's selector is replaced, not merged: a strategic merge patch obeys
// patchStrategy.
func TestStrategicPatchReplacesASelector(t *testing.T) {
	w := newWorld(t)
	budgets := w.User.PolicyV1().PodDisruptionBudgets("default")
	testcheck.Must(budgets.Create(w.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1", "b": "2"}},
		},
	}, metav1.CreateOptions{}))
	for patch, want := range map[string]map[string]string{
		`{"spec":{"selector":{"matchLabels":{"c":"3"}}}}`:             {"c": "3"},
		`{"spec":{"selector":{"matchLabels":{"d":"4","c":null}}}}`:    {"c": "", "d": "4"},
		`{"spec":{"selector":{"$patch":"replace","matchLabels":{}}}}`: {},
	} {
		b := testcheck.Must(budgets.Patch(w.Context(), "b", types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
		expect(t, maps.Equal(b.Spec.Selector.MatchLabels, want), true)
	}
	b := testcheck.Must(budgets.Patch(w.Context(), "b", types.MergePatchType,
		[]byte(`{"spec":{"selector":{"matchLabels":{"c":"3"}}}}`), metav1.PatchOptions{}))
	expect(t, b.Spec.Selector.MatchLabels, map[string]string{"a": "1", "b": "2", "c": "3"})
}
