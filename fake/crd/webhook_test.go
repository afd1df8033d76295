package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// ovens is a resource whose versions differ: spec.celsius of v1, which is stored, is spec.heat of
// v2, such as "20C". A webhook converts them.
const ovens = `
metadata: {name: ovens.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: ovens, kind: Oven}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1, v1beta1]
      clientConfig: {service: {namespace: shop, name: hook, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {celsius: {type: integer}, replicas: {type: integer}, brand: {type: string, default: Foo}}},
      status: {type: object, properties: {replicas: {type: integer}}}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    selectableFields: [{jsonPath: .spec.heat}]
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {heat: {type: string}, replicas: {type: integer}, brand: {type: string}}},
      status: {type: object, properties: {replicas: {type: integer}}}}}}
`

const ovensName = "ovens.shop.example.com"

var (
	ovensV1 = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "ovens"}
	ovensV2 = schema.GroupVersionResource{Group: "shop.example.com", Version: "v2", Resource: "ovens"}
)

// A hook is a conversion webhook.
type hook struct {
	mu      sync.Mutex
	convert func(obj *unstructured.Unstructured, to string) error
	answer  func(review, response map[string]any) // changes an answer; nil: it stays
	status  int                                   // of the HTTP response; 0: 200
	reviews []map[string]any                      // the requests
}

func newHook() *hook { return &hook{convert: convertOven} }

// convertOven converts an oven, and says so in labels.
func convertOven(obj *unstructured.Unstructured, to string) error {
	spec, _ := obj.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	switch to {
	case "shop.example.com/v1":
		heat, _ := spec["heat"].(string)
		degrees, err := strconv.ParseInt(strings.TrimSuffix(heat, "C"), 10, 64)
		if heat != "" && err != nil {
			return fmt.Errorf("no temperature: %q", heat)
		}
		delete(spec, "heat")
		if heat != "" {
			spec["celsius"] = degrees
		}
	case "shop.example.com/v2":
		degrees, ok := spec["celsius"].(int64)
		delete(spec, "celsius")
		if ok {
			spec["heat"] = fmt.Sprintf("%dC", degrees)
		}
		spec["unknown"] = "pruned"
	default:
		return fmt.Errorf("unknown version %q", to)
	}
	if len(spec) > 0 {
		obj.Object["spec"] = spec
	}
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["converted-to"] = to[strings.LastIndex(to, "/")+1:]
	obj.SetLabels(labels)
	obj.SetFinalizers([]string{"example.com/ignored"})
	obj.SetGeneration(42)
	obj.SetAPIVersion(to)
	return nil
}

// ServeHTTP answers a review.
func (h *hook) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.status != 0 {
		http.Error(rw, "no such oven", h.status)
		return
	}
	review := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path != "/convert" {
		http.Error(rw, fmt.Sprint(err, r.URL), http.StatusBadRequest)
		return
	}
	request := review["request"].(map[string]any)
	h.reviews = append(h.reviews, request)
	result := map[string]any{"status": "Success"}
	converted := []any{}
	for _, obj := range request["objects"].([]any) {
		data, err := json.Marshal(obj)
		u := &unstructured.Unstructured{}
		if err == nil {
			err = u.UnmarshalJSON(data)
		}
		if err == nil {
			err = h.convert(u, request["desiredAPIVersion"].(string))
		}
		if err != nil {
			result = map[string]any{"status": "Failure", "message": err.Error()}
		}
		converted = append(converted, u.Object)
	}
	response := map[string]any{"uid": request["uid"], "result": result, "convertedObjects": converted}
	review["response"] = response
	delete(review, "request")
	if h.answer != nil {
		h.answer(review, response)
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(review)
}

// taken returns the names of the objects in each review since the last call, with the version.
func (h *hook) taken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []string{}
	for _, r := range h.reviews {
		line := strings.TrimPrefix(r["desiredAPIVersion"].(string), "shop.example.com/") + ":"
		for _, obj := range r["objects"].([]any) {
			line += " " + obj.(map[string]any)["metadata"].(map[string]any)["name"].(string)
		}
		all = append(all, line)
	}
	h.reviews = nil
	return all
}

// newOvens returns a world with ovens, and their webhook.
func newOvens(t *testing.T) (*world, *hook) {
	h := newHook()
	w := newWorldWith(t, map[types.NamespacedName]http.Handler{{Namespace: "shop", Name: "hook"}: h})
	w.create(definitions, "", ovens)
	return w, h
}

// shown returns the parts of an oven that a conversion affects.
func shown(t testing.TB, obj fake.Object) string {
	c := obj.(*fake.CustomObject)
	return fmt.Sprintf("%s %s %v %s %d %v", strings.TrimPrefix(c.APIVersion, "shop.example.com/"), c.Name, c.Labels["converted-to"],
		text(t, c.Content["spec"]), c.Generation, c.Finalizers)
}

func (w *world) stored(name string) fake.Object {
	w.Helper()
	obj, ok := w.Server.Get(ovensName, "default", name)
	if !ok {
		w.Fatalf("no oven %q", name)
	}
	return obj
}

func (w *world) list(r schema.GroupVersionResource, opts metav1.ListOptions) (all []string, more string) {
	w.Helper()
	list := testcheck.Must(w.resource(r, "").List(w.Context(), opts))
	for _, obj := range list.Objects {
		all = append(all, shown(w, obj))
	}
	return all, list.Continue
}

// Objects are stored in the storage version, and read in that of the request. Only objects in
// another version are sent to the webhook.
func TestConversionByAWebhook(t *testing.T) {
	w, h := newOvens(t)
	expect(t, `v2 a v2 {"brand":"Foo","heat":"200C"} 1 []`,
		shown(t, w.create(ovensV2, "default", `{metadata: {name: a}, spec: {heat: 200C}}`)))
	expect(t, []string{"v1: a", "v2: a"}, h.taken())
	expect(t, `v1 a v1 {"celsius":200} 1 []`, shown(t, w.stored("a")))
	expect(t, `v1 b  {"brand":"Foo","celsius":180} 1 []`,
		shown(t, w.create(ovensV1, "default", `{metadata: {name: b}, spec: {celsius: 180}}`)))
	expect(t, `v1 a v1 {"brand":"Foo","celsius":200} 1 []`, shown(t, w.get(ovensV1, "default", "a")))
	expect(t, []string{}, h.taken())

	expect(t, `v2 b v2 {"brand":"Foo","heat":"180C"} 1 []`, shown(t, w.get(ovensV2, "default", "b")))
	expect(t, []string{"v2: b"}, h.taken())
	expect(t, `v2 b v2 {"brand":"Foo","heat":"190C"} 2 []`,
		shown(t, testcheck.Must(w.patch(ovensV2, "default", "b", `{"spec":{"heat":"190C"}}`))))
	expect(t, `v1 b v1 {"brand":"Foo","celsius":190} 2 []`, shown(t, w.stored("b")))
	h.taken()

	all, _ := w.list(ovensV2, metav1.ListOptions{})
	expect(t, []string{`v2 a v2 {"brand":"Foo","heat":"200C"} 1 []`, `v2 b v2 {"brand":"Foo","heat":"190C"} 2 []`}, all)
	expect(t, []string{"v2: a b"}, h.taken())
}

// After a change of the storage version, objects are stored in both. Any write stores an object in
// the new one.
func TestMixedStorageVersionsWithAWebhook(t *testing.T) {
	w, h := newOvens(t)
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	testcheck.Must(w.patch(definitions, "", ovensName,
		`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`))
	w.create(ovensV1, "default", `{metadata: {name: b}, spec: {celsius: 2}}`)
	w.create(ovensV2, "default", `{metadata: {name: c}, spec: {heat: 3C}}`)
	h.taken()
	all, _ := w.list(ovensV1, metav1.ListOptions{})
	expect(t, []string{
		`v1 a  {"brand":"Foo","celsius":1} 1 []`, `v1 b v1 {"brand":"Foo","celsius":2} 1 []`, `v1 c v1 {"celsius":3} 1 []`,
	}, all)
	expect(t, []string{"v1: b c"}, h.taken())
	expect(t, `["v1","v2"]`, text(t, w.get(definitions, "", ovensName).Content["status"].(map[string]any)["storedVersions"]))

	testcheck.Must(w.patch(ovensV1, "default", "a", `{}`))
	expect(t, `v2 a v2 {"brand":"Foo","heat":"1C"} 1 []`, shown(t, w.stored("a")))
}

// Updates, subresources and server-side apply see an object in the version of the request.
func TestWritesWithAWebhook(t *testing.T) {
	w, _ := newOvens(t)
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1, replicas: 2}}`)
	obj := w.get(ovensV2, "default", "a").DeepCopyObject().(*fake.CustomObject)
	obj.Content["spec"].(map[string]any)["heat"] = "7C"
	done := testcheck.Must(w.resource(ovensV2, "default").Update(w.Context(), "a", obj, metav1.UpdateOptions{}))
	expect(t, `v2 a v2 {"brand":"Foo","heat":"7C","replicas":2} 2 []`, shown(t, done.Object))
	expect(t, done.Object.GetResourceVersion(), w.stored("a").GetResourceVersion())
	testcheck.Must(w.patch(ovensV2, "default", "a", `{"status":{"replicas":1}}`, "status"))
	expect(t, `{"spec":{"brand":"Foo","celsius":7,"replicas":2},"status":{"replicas":1}}`,
		text(t, w.stored("a").(*fake.CustomObject).Content))
	scale, _ := w.resource(ovensV2, "default").Scale()
	testcheck.Must(scale.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}))
	expect(t, `v1 a v1 {"brand":"Foo","celsius":7,"replicas":3} 3 []`, shown(t, w.stored("a")))

	apply := func(r schema.GroupVersionResource, manager, spec string) (string, error) {
		done, err := w.resource(r, "default").Patch(w.Context(), "b", types.ApplyYAMLPatchType, []byte(fmt.Sprintf(
			`{"apiVersion":"shop.example.com/%s","kind":"Oven","metadata":{"name":"b"},"spec":%s}`, r.Version, spec)),
			metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			return "", err
		}
		return shown(t, done.Object), nil
	}
	expect(t, `v2 b v2 {"brand":"Foo","heat":"5C"} 1 []`, testcheck.Must(apply(ovensV2, "two", `{"heat":"5C"}`)))
	_, err := apply(ovensV1, "one", `{"celsius":6}`)
	expectError(t, `Apply failed with 1 conflict: conflict with "two": .spec.heat`, err)
	expect(t, `v1 b v1 {"brand":"Foo","celsius":5,"replicas":1} 2 []`, testcheck.Must(apply(ovensV1, "one", `{"replicas":1}`)))
	expect(t, `v2 b v2 {"brand":"Foo","replicas":1} 3 []`, testcheck.Must(apply(ovensV2, "two", `{}`)))

	w.delete(ovensV2, "default", "b")
	expect(t, 1, w.Server.Count(ovensName))
}

// Labels and fields are selected as a webhook returns them.
func TestSelectorsWithAWebhook(t *testing.T) {
	w, h := newOvens(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.create(ovensV1, "default", fmt.Sprintf(`{metadata: {name: %s}, spec: {celsius: %d}}`, name, 10*len(name)))
	}
	w.create(ovensV1, "default", `{metadata: {name: hot}, spec: {celsius: 300}}`)
	names := func(opts metav1.ListOptions) string {
		t.Helper()
		var all []string
		list := testcheck.Must(w.resource(ovensV2, "default").List(w.Context(), opts))
		for _, obj := range list.Objects {
			all = append(all, obj.GetName())
		}
		return strings.Join(all, " ")
	}
	expect(t, "a b c d hot", names(metav1.ListOptions{LabelSelector: "converted-to=v2"}))
	expect(t, "", names(metav1.ListOptions{LabelSelector: "!converted-to"}))
	expect(t, "hot", names(metav1.ListOptions{FieldSelector: "spec.heat=300C"}))
	h.taken()
	expect(t, "b", names(metav1.ListOptions{FieldSelector: "metadata.name=b"}))
	expect(t, "b", names(metav1.ListOptions{FieldSelector: "metadata.name=b", LabelSelector: "converted-to"}))
	expect(t, []string{"v2: b", "v2: b"}, h.taken())
	for _, labels := range []string{"", "converted-to=v2"} {
		all, more := w.list(ovensV2, metav1.ListOptions{Limit: 2, LabelSelector: labels})
		expect(t, 2, len(all))
		rest, more := w.list(ovensV2, metav1.ListOptions{Continue: more, LabelSelector: labels})
		expect(t, 3, len(rest))
		expect(t, "", more)
	}
}

// A watch has the objects in its version, and selects by what the webhook returns.
func TestWatchWithAWebhook(t *testing.T) {
	w, _ := newOvens(t)
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	watch := func(opts metav1.ListOptions) *fake.Cursor {
		return testcheck.Must(w.resource(ovensV2, "default").Watch(w.Context(), opts))
	}
	all, hot := watch(metav1.ListOptions{}), watch(metav1.ListOptions{FieldSelector: "spec.heat=9C"})
	one := watch(metav1.ListOptions{FieldSelector: "metadata.name=b"})
	testcheck.Must(w.patch(ovensV1, "default", "a", `{"spec":{"celsius":9}}`))
	testcheck.Must(w.patch(ovensV1, "default", "a", `{"spec":{"celsius":8}}`))
	w.create(ovensV1, "default", `{metadata: {name: b}, spec: {celsius: 9}}`)
	w.delete(ovensV1, "default", "b")
	read := func(c *fake.Cursor) (got []string) {
		for {
			e, ok, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return got
			}
			obj := e.Object.(*fake.CustomObject)
			got = append(got, fmt.Sprint(e.Type, " ", obj.Name, " ", obj.Content["spec"].(map[string]any)["heat"]))
		}
	}
	expect(t, []string{"ADDED a 1C", "MODIFIED a 9C", "MODIFIED a 8C", "ADDED b 9C", "DELETED b 9C"}, read(all))
	expect(t, []string{"ADDED a 9C", "DELETED a 9C", "ADDED b 9C", "DELETED b 9C"}, read(hot))
	expect(t, []string{"ADDED b 9C", "DELETED b 9C"}, read(one))
}

// What a webhook is sent is what the real server sends.
func TestReview(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			w, h := newOvens(t)
			testcheck.Must(w.patch(definitions, "", ovensName,
				`{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v7","`+version+`"]}}}}`))
			var apiVersion any
			h.answer = func(review, _ map[string]any) { apiVersion = review["apiVersion"] }
			w.create(ovensV1, "default", `{metadata: {name: a, annotations: {k: v}}, spec: {celsius: 1}}`)
			w.get(ovensV2, "default", "a")
			expect(t, "apiextensions.k8s.io/"+version, apiVersion)
			expect(t, 1, len(h.reviews))
			uid := h.reviews[0]["uid"].(string)
			expect(t, 36, len(uid))
			expect(t, `{"desiredAPIVersion":"shop.example.com/v2","objects":[{"apiVersion":"shop.example.com/v1","kind":"Oven",`+
				`"metadata":{"annotations":{"k":"v"},"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"name":"a",`+
				`"namespace":"default","uid":"`+string(w.stored("a").GetUID())+`"},"spec":{"brand":"Foo","celsius":1}}],"uid":"`+uid+`"}`,
				text(t, h.reviews[0]))
		})
	}
}

// Every request that needs a conversion fails with the webhook, and changes nothing.
func TestFailuresOfAWebhook(t *testing.T) {
	const kind = "shop.example.com/v1, Kind=Oven"
	converted := func(change func(obj map[string]any)) func(h *hook) {
		return func(h *hook) {
			h.answer = func(_, response map[string]any) { change(response["convertedObjects"].([]any)[0].(map[string]any)) }
		}
	}
	metadata := func(name string, value any) func(h *hook) {
		return converted(func(obj map[string]any) { obj["metadata"].(map[string]any)[name] = value })
	}
	for _, tt := range []struct {
		name  string
		spoil func(h *hook)
		want  string
	}{
		{
			"failure", func(h *hook) {
				h.convert = func(*unstructured.Unstructured, string) error { return fmt.Errorf("too hot") }
			},
			"conversion webhook for " + kind + " failed: too hot",
		},
		{
			"failure without a message", func(h *hook) {
				h.answer = func(_, response map[string]any) { response["result"] = map[string]any{"status": "Failure"} }
			},
			"conversion webhook for " + kind + " failed: response.result.status was 'Failure', not 'Success'",
		},
		{
			"status", func(h *hook) { h.status = http.StatusTeapot },
			"conversion webhook for " + kind + " failed: the server responded with the status code 418 but did not return more information",
		},
		{
			"no response", func(h *hook) { h.answer = func(review, _ map[string]any) { delete(review, "response") } },
			"conversion webhook for " + kind + " failed: no response provided",
		},
		{
			"another kind", func(h *hook) { h.answer = func(review, _ map[string]any) { review["kind"] = "Review" } },
			`conversion webhook for ` + kind + ` failed: no kind "Review" is registered for version "apiextensions.k8s.io/v1" in scheme`,
		},
		{
			"UID", func(h *hook) { h.answer = func(_, response map[string]any) { response["uid"] = "x" } },
			`conversion webhook for ` + kind + ` failed: expected response.uid="`,
		},
		{
			"no object", func(h *hook) { h.answer = func(_, response map[string]any) { response["convertedObjects"] = []any{} } },
			"conversion webhook for " + kind + " returned 0 objects, expected 1",
		},
		{
			"version", converted(func(obj map[string]any) { obj["apiVersion"] = "shop.example.com/v1" }),
			"conversion webhook for " + kind + " returned invalid object at index 0: " +
				"invalid groupVersion (expected shop.example.com/v2, received shop.example.com/v1)",
		},
		{
			"kind", converted(func(obj map[string]any) { obj["kind"] = "Stove" }),
			"conversion webhook for " + kind + " returned invalid object at index 0: invalid kind (expected Oven, received Stove)",
		},
		{
			"name", metadata("name", "x"),
			"conversion webhook for " + kind + " returned invalid object: must have the same name: a != x",
		},
		{
			"namespace", metadata("namespace", "x"),
			"conversion webhook for " + kind + " returned invalid object: must have the same namespace: default != x",
		},
		{
			"UID of the object", metadata("uid", "x"),
			"conversion webhook for " + kind + " returned invalid object: must have the same UID: ",
		},
		{
			"label", metadata("labels", map[string]any{"a": "b c"}),
			"conversion webhook for " + kind + " returned invalid metadata: metadata.labels: Invalid value: \"b c\": ",
		},
		{
			"label that is no string", metadata("labels", map[string]any{"a": 1}),
			"conversion webhook for " + kind + " returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
		},
		{
			"metadata", converted(func(obj map[string]any) { delete(obj, "metadata") }),
			"conversion webhook for " + kind + " returned invalid object: must have the same name: a != ",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, h := newOvens(t)
			w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1, replicas: 1}}`)
			before := w.Server.Revision()
			tt.spoil(h)
			for verb, err := range w.everyRead() {
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("%s: got %v, want %s", verb, err, tt.want)
				}
			}
			expect(t, before, w.Server.Revision())
			h.status, h.answer, h.convert = 0, nil, convertOven
			for verb, err := range w.everyRead() {
				if err != nil {
					t.Errorf("%s: got %v from a webhook that works", verb, err)
				}
			}
		})
	}
}

// everyRead makes each request that reads the oven a in v2, and returns the errors.
func (w *world) everyRead() map[string]error {
	r, ctx := w.resource(ovensV2, "default"), w.Context()
	scale, _ := r.Scale()
	errs := map[string]error{}
	_, errs["get"] = r.Get(ctx, "a", metav1.GetOptions{})
	_, errs["list"] = r.List(ctx, metav1.ListOptions{})
	_, errs["list by label"] = r.List(ctx, metav1.ListOptions{LabelSelector: "a!=b"})
	_, errs["watch"] = r.Watch(ctx, metav1.ListOptions{})
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		_, err := r.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{DryRun: dryRun})
		errs[fmt.Sprint("patch", dryRun)] = err
		_, err = r.Patch(ctx, "a", types.ApplyYAMLPatchType,
			[]byte(`{"apiVersion":"shop.example.com/v2","kind":"Oven","metadata":{"name":"a"}}`),
			metav1.PatchOptions{FieldManager: "m", DryRun: dryRun})
		errs[fmt.Sprint("apply", dryRun)] = err
		_, err = r.Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"replicas":1}}`), metav1.PatchOptions{DryRun: dryRun}, "status")
		errs[fmt.Sprint("status", dryRun)] = err
		obj := object(w, `{metadata: {name: a, namespace: default}, spec: {heat: 1C, replicas: 1}}`)
		obj.ResourceVersion = w.stored("a").GetResourceVersion()
		_, err = r.Update(ctx, "a", obj, metav1.UpdateOptions{DryRun: dryRun})
		errs[fmt.Sprint("update", dryRun)] = err
	}
	_, errs["scale"] = scale.Get(ctx, "a", metav1.GetOptions{})
	_, errs["patch scale"] = scale.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	_, errs["deletecollection"] = r.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{})
	_, errs["delete dry"] = r.Delete(ctx, "a", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	_, errs["delete"] = r.Delete(ctx, "a", metav1.DeleteOptions{})
	return errs
}

// A long list is converted in several reviews.
func TestLongListWithAWebhook(t *testing.T) {
	w, h := newOvens(t)
	for i := range 501 {
		w.create(ovensV1, "default", fmt.Sprintf(`{metadata: {name: o%03d}, spec: {celsius: %d}}`, i, i))
	}
	for _, labels := range []string{"", "converted-to=v2"} {
		list := testcheck.Must(w.resource(ovensV2, "").List(w.Context(), metav1.ListOptions{LabelSelector: labels}))
		for i, obj := range list.Objects {
			expect(t, fmt.Sprintf(`v2 o%03d v2 {"brand":"Foo","heat":"%dC"} 1 []`, i, i), shown(t, obj))
		}
		expect(t, 501, len(list.Objects))
		reviews := h.taken()
		expect(t, 2, len(reviews))
		expect(t, "v2: o500", reviews[1])
	}
}

// With a webhook inside the process, the same choices cause the same trace.
func TestWebhookInASteppedWorld(t *testing.T) {
	run := func() string {
		h := newHook()
		host := sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(1)})
		defer host.Close()
		s := fake.NewServer(fake.Config{
			Now: host.Now, Services: map[types.NamespacedName]http.Handler{{Namespace: "shop", Name: "hook"}: h},
		})
		crd.Serve(s)
		r, _ := s.Client(host.ExternalCaller()).Resource(definitions, "")
		testcheck.Must(r.Create(t.Context(), object(t, ovens), metav1.CreateOptions{}))
		for _, name := range []string{"a", "b"} {
			c := host.Process(name)
			testcheck.Must(s.Informers(c).ForResource(ovensV2)).Informer()
			c.User("", func(ctx context.Context) {
				for i := range 5 {
					r, _ := s.Client(c).Resource(ovensV2, "default")
					obj := object(t, fmt.Sprintf(`{metadata: {name: %s%d}, spec: {heat: %dC}}`, name, i, i))
					_, err := r.Create(ctx, obj, metav1.CreateOptions{})
					_, failed := r.List(ctx, metav1.ListOptions{LabelSelector: "converted-to"})
					if err != nil || failed != nil {
						t.Error(err, failed)
					}
				}
			})
		}
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
		return host.Log().Text()
	}
	first := run()
	if !strings.Contains(first, "deliver ADDED ovens/default/b4") {
		t.Error("nothing was delivered:\n", first)
	}
	expect(t, first, run())
}
