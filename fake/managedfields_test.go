package fake_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

func (w *world) maps() typedcorev1.ConfigMapInterface { return w.User.CoreV1().ConfigMaps("default") }

func newConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: data}
}

// By default tracking begins with the first apply.
func TestManagedFieldsBeginWithTheFirstApply(t *testing.T) {
	w := newWorld(t)
	c := testcheck.Must(w.maps().Create(w.Context(), newConfigMap("a", map[string]string{"x": "1", "z": "1"}),
		metav1.CreateOptions{FieldManager: "early"}))
	expect(t, owners(c), "")
	c.Data["z"] = "2"
	c = testcheck.Must(w.maps().Update(w.Context(), c, metav1.UpdateOptions{}))
	expect(t, owners(c), "")

	_, err := w.applyData("a", "x=2", metav1.ApplyOptions{})
	expectError(t, err, apierrors.IsConflict, `conflict with "before-first-apply" using v1: .data.x`)
	c = testcheck.Must(w.applyData("a", "y=1", metav1.ApplyOptions{}))
	before := `before-first-apply Update {"f:data":{".":{},"f:x":{},"f:z":{}}}` + "\n"
	expect(t, owners(c), `a Apply {"f:data":{"f:y":{}}}`+"\n"+before)

	c.Data["z"], c.ManagedFields = "3", nil // as written by clients without managed fields
	c = testcheck.Must(w.maps().Update(w.Context(), c, metav1.UpdateOptions{}))
	expect(t, owners(c), `a Apply {"f:data":{"f:y":{}}}`+"\n"+
		`before-first-apply Update {"f:data":{".":{},"f:x":{}}}`+"\n"+`volsim Update {"f:data":{"f:z":{}}}`+"\n")
}

func TestManagedFieldsOfEveryKindOfWrite(t *testing.T) {
	const first = `me Update {"f:data":{".":{},"f:x":{}}}` + "\n"
	merge := func(patch string, opts metav1.PatchOptions) func(*world, *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		return func(w *world, _ *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			return w.maps().Patch(w.Context(), "a", types.MergePatchType, []byte(patch), opts)
		}
	}
	jsonPatch := func(patch string) func(*world, *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		return func(w *world, _ *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			return w.maps().Patch(w.Context(), "a", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		}
	}
	update := func(change func(*corev1.ConfigMap)) func(*world, *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		return func(w *world, c *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			change(c)
			return w.maps().Update(w.Context(), c, metav1.UpdateOptions{FieldManager: "u"})
		}
	}
	var fields metav1.FieldsV1
	testcheck.NoError(t, fields.UnmarshalJSON([]byte(`{"f:data":{"f:x":{}}}`)))
	entry := func(operation metav1.ManagedFieldsOperationType) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{
			Manager: "z", Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &fields,
		}}
	}
	for _, test := range []struct {
		name string
		do   func(*world, *corev1.ConfigMap) (*corev1.ConfigMap, error)
		want string
	}{
		{"update", update(func(c *corev1.ConfigMap) { c.Data["y"] = "1" }), first + `u Update {"f:data":{"f:y":{}}}` + "\n"},
		{"update of a missing object", update(func(c *corev1.ConfigMap) { c.ManagedFields = nil }), first},
		{"update takes", update(func(c *corev1.ConfigMap) { c.Data["x"] = "2" }), `me Update {"f:data":{}}` + "\n" + `u Update {"f:data":{"f:x":{}}}` + "\n"},
		{"update with a UID", update(func(c *corev1.ConfigMap) { c.ManagedFields = entry("Update") }), `z Update {"f:data":{"f:x":{}}}` + "\n"},
		{"update with a malformed resourceVersion", update(func(c *corev1.ConfigMap) { c.ManagedFields = entry("Foo") }), first},
		{"update resets", update(func(c *corev1.ConfigMap) { c.ManagedFields = []metav1.ManagedFieldsEntry{} }), ""},
		{
			"merge patch", merge(`{"data":{"y":"1"}}`, metav1.PatchOptions{}),
			`me Update {"f:data":{".":{},"f:x":{},"f:y":{}}}` + "\n",
		},
		{
			"merge patch of another", merge(`{"metadata":{"labels":{"l":"1"}}}`, metav1.PatchOptions{FieldManager: "p"}),
			first + `p Update {"f:metadata":{"f:labels":{".":{},"f:l":{}}}}` + "\n",
		},
		{"merge patch resets", merge(`{"metadata":{"managedFields":[]}}`, metav1.PatchOptions{}), ""},
		{
			"JSON patch", jsonPatch(`[{"op":"remove","path":"/data/x"},{"op":"add","path":"/data/y","value":"1"}]`),
			`me Update {"f:data":{".":{},"f:y":{}}}` + "\n",
		},
		{"JSON patch resets", jsonPatch(`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`), ""},
		{
			"JSON patch moves all to an applier, as kubectl does", jsonPatch(`[{"op":"replace","path":"/metadata/managedFields","value":` +
				`[{"manager":"kubectl","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:x":{}}}}]}]`),
			`kubectl Apply {"f:data":{"f:x":{}}}` + "\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorldWith(t, fake.Config{TrackManagedFields: true})
			w.User = w.User.As("me/v1 (linux)")
			c := testcheck.Must(w.maps().Create(w.Context(), newConfigMap("a", map[string]string{"x": "1"}),
				metav1.CreateOptions{}))
			expect(t, owners(c), first)
			c = testcheck.Must(test.do(w, c))
			expect(t, owners(c), test.want)
		})
	}
}

func TestManagerNames(t *testing.T) {
	for _, test := range []struct {
		name   string
		client func(s *fake.Server) *fake.Clientset
		option string
		want   string
	}{
		{"the default manager", func(s *fake.Server) *fake.Clientset { return s.Client(direct) }, "", "volsim"},
		{"a component", func(s *fake.Server) *fake.Clientset { return s.Client(component{direct, "attacher"}) }, "", "attacher"},
		{"a user agent", func(s *fake.Server) *fake.Clientset { return s.Client(direct).As("kubectl/v1.36.3 (linux/amd64)") }, "", "kubectl"},
		{"unprintable characters", func(s *fake.Server) *fake.Clientset { return s.Client(direct).As("a\nb") }, "", "ab"},
		{"a long one", func(s *fake.Server) *fake.Clientset { return s.Client(direct).As(strings.Repeat("a", 130)) }, "", strings.Repeat("a", 128)},
		{"the option", func(s *fake.Server) *fake.Clientset { return s.Client(direct).As("kubectl/v1") }, "mine", "mine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorldWith(t, fake.Config{TrackManagedFields: true})
			w.User = test.client(w.Server)
			c := testcheck.Must(w.maps().Create(w.Context(), newConfigMap("a", nil),
				metav1.CreateOptions{FieldManager: test.option}))
			expect(t, len(c.ManagedFields), 0) // there is no field
			c = testcheck.Must(w.maps().Create(w.Context(), newConfigMap("b", map[string]string{"x": "1"}),
				metav1.CreateOptions{FieldManager: test.option}))
			expect(t, c.ManagedFields[0].Manager, test.want)
		})
	}
}

// component is a Caller with a name.
type component struct {
	sim.Caller

	name string
}

func (c component) Name() string { return c.name }

func TestManagedFieldsOfStatus(t *testing.T) {
	w := newWorldWith(t, fake.Config{TrackManagedFields: true})
	c := w.create("p")
	c.Status.Phase = corev1.ClaimBound
	c.Spec.VolumeName = "ignored"
	c = w.updateStatus(c)
	e := c.ManagedFields[len(c.ManagedFields)-1]
	expect(t, e.Subresource+" "+e.FieldsV1.String(), `status {"f:status":{"f:phase":{}}}`)
}

// Deletions and bindings have no manager, and keep the managed fields.
func TestManagedFieldsSurviveDeletion(t *testing.T) {
	w := newWorldWith(t, fake.Config{TrackManagedFields: true})
	c := w.create("p")
	w.delete("p")
	expect(t, owners(w.get("p")), owners(c))
}

func TestManagedFieldsHaveTheTimeOfTheWorld(t *testing.T) {
	now := sim.Epoch
	w := newWorld(t)
	w.Server = fake.NewServer(fake.Config{Now: func() time.Time { return now }})
	w.ActImmediately()
	times := func(c *corev1.ConfigMap, err error) string {
		var out []string
		for _, e := range testcheck.Must(c, err).ManagedFields {
			out = append(out, fmt.Sprint(e.Manager, e.Time.Sub(sim.Epoch)))
		}
		return strings.Join(out, " ")
	}
	expect(t, times(w.applyData("b", "x=1", metav1.ApplyOptions{})), "b0s")
	now = now.Add(time.Hour)
	expect(t, times(w.applyData("b", "x=1", metav1.ApplyOptions{})), "b0s")
	expect(t, times(w.applyData("a", "y=1", metav1.ApplyOptions{})), "b0s a1h0m0s")
	now = now.Add(time.Hour)
	expect(t, times(w.applyData("b", "x=2", metav1.ApplyOptions{})), "a1h0m0s b2h0m0s")
	now = now.Add(-3 * time.Hour) // a clock that was set back
	expect(t, times(w.maps().Patch(w.Context(), "a", types.MergePatchType, []byte(`{"data":{"z":"1"}}`),
		metav1.PatchOptions{})), "a1h0m0s b2h0m0s volsim-1h0m0s")
}

func TestManagedFieldsOfCustomResources(t *testing.T) {
	w := newWorld(t)
	w.Server.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{
			"v1",
			"v1beta1",
		}, Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true,
	})
	c := w.resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	apply := func(manager, rest string, sub ...string) fake.Object {
		t.Helper()
		config := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},` + rest + `}`
		done, err := c.Patch(w.Context(), "a", types.ApplyYAMLPatchType, []byte(config),
			metav1.PatchOptions{FieldManager: manager}, sub...)
		return testcheck.Must(done, err).Object
	}
	apply("m", `"spec":{"size":1,"list":[1,2]},"status":{"ready":true}`)
	expect(t, owners(apply("n", `"spec":{"color":"red"}`)),
		`m Apply {"f:spec":{".":{},"f:list":{},"f:size":{}}}`+"\n"+`n Apply {"f:spec":{".":{},"f:color":{}}}`+"\n")
	obj := apply("s", `"spec":{"size":7},"status":{"ready":true}`, "status").(*fake.CustomObject)
	expect(t, obj.Content, map[string]any{
		"spec": map[string]any{
			"size": int64(1), "list": []any{int64(1), int64(2)},
			"color": "red",
		}, "status": map[string]any{"ready": true},
	})
	expect(t, owners(obj), `m Apply {"f:spec":{".":{},"f:list":{},"f:size":{}}}`+"\n"+`n Apply {"f:spec":{".":{},"f:color":{}}}`+"\n"+
		`s Apply/status {"f:status":{".":{},"f:ready":{}}}`+"\n")

	done := testcheck.Must(c.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"size":2}}`),
		metav1.PatchOptions{}))
	expect(t, strings.HasSuffix(owners(done.Object), `volsim Update {"f:spec":{"f:size":{}}}`+"\n"), true)
	old := w.resource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"})
	done = testcheck.Must(old.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"color":"blue"}}`),
		metav1.PatchOptions{FieldManager: "o"}))
	last := done.Object.GetManagedFields()[3]
	expect(t, last.Manager+" "+last.APIVersion+" "+last.FieldsV1.String(),
		`o example.com/v1beta1 {"f:spec":{"f:color":{}}}`)
}

// drawData draws the data of a config map.
func drawData(t *rapid.T, keys []string, least int) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"0", "1", "2"}), least, len(keys)).Draw(t,
		"data")
}

func words(data map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(data)) {
		b.WriteString(k + "=" + data[k] + " ")
	}
	return b.String()
}

// A repeated apply changes nothing. The result has what was applied. Managers with disjoint fields
// never conflict. Managed fields survive JSON encoding.
func TestApplyLaws(t *testing.T) {
	owned := map[string][]string{"a": {"k1", "k2"}, "b": {"k3", "k4"}, "c": {"k5"}}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 8).Draw(rt, "applies") {
			manager := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "manager")
			data := drawData(rt, owned[manager], 0)
			first, err := w.applyData(manager, words(data), metav1.ApplyOptions{})
			if err != nil {
				rt.Fatalf("%s applies %s: %v", manager, words(data), err)
			}
			for _, k := range owned[manager] {
				if first.Data[k] != data[k] {
					rt.Fatalf("%s applied %s, got %v", manager, words(data), first.Data)
				}
			}
			again, err := w.applyData(manager, words(data), metav1.ApplyOptions{})
			if err != nil || again.ResourceVersion != first.ResourceVersion {
				rt.Fatalf("%s applies %s again: %v, %s, was %s", manager, words(data), err, again.ResourceVersion,
					first.ResourceVersion)
			}
			var read corev1.ConfigMap
			doc, err := json.Marshal(again)
			if err != nil || json.Unmarshal(doc, &read) != nil || owners(&read) != owners(again) {
				rt.Fatalf("%s was decoded as\n%s", doc, owners(&read))
			}
		}
	})
}

// An updated field belongs to its updater alone: its applier needs force to change it.
func TestUpdateAfterApplyTakesOwnership(t *testing.T) {
	keys := []string{"k1", "k2", "k3"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		applied := drawData(rt, keys, 1) // an object without managed fields is not tracked
		c, err := w.applyData("a", words(applied), metav1.ApplyOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		key := rapid.SampledFrom(keys).Draw(rt, "key")
		c.Data[key] = "new"
		if c, err = w.maps().Update(w.Context(), c, metav1.UpdateOptions{FieldManager: "u"}); err != nil {
			rt.Fatal(err)
		}
		if !strings.Contains(owners(c), "u Update {") || !strings.Contains(owners(c)[strings.Index(owners(c), "u Update {"):], `"f:`+key+`":{}`) {
			rt.Fatalf("u does not have %s:\n%s", key, owners(c))
		}
		_, err = w.applyData("a", words(applied), metav1.ApplyOptions{})
		if _, had := applied[key]; had != apierrors.IsConflict(err) {
			rt.Fatalf("a had %s: %v; applies again: %v", key, had, err)
		}
	})
}

// The managed fields of a custom resource follow its stored form: pruned, also changed by its
// /scale, and in the version of each writer.
func TestManagedFieldsOfPrunedScaledAndConvertedResources(t *testing.T) {
	w := newWorldWith(t, fake.Config{TrackManagedFields: true})
	w.Server.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1", "v2"}, Resource: "widgets", Kind: "Widget", Namespaced: true,
		Scale: func(string) *fake.ScalePaths {
			return &fake.ScalePaths{SpecReplicas: ".spec.count", StatusReplicas: ".status.count"}
		},
		Default: func(obj *fake.CustomObject) error {
			delete(obj.Content["spec"].(map[string]any), "unknown")
			return nil
		},
		Convert: func(obj *fake.CustomObject, version string) {
			spec := obj.Content["spec"].(map[string]any)
			from, to := "color", "colour"
			if version == "v1" {
				from, to = to, from
			}
			if c, ok := spec[from]; ok {
				spec[to] = c
				delete(spec, from)
			}
		},
	})
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	c := w.resource(gvr)
	obj := &fake.CustomObject{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Content: map[string]any{
		"spec": map[string]any{"count": int64(1), "color": "red", "unknown": true},
	}}
	done := testcheck.Must(c.Create(w.Context(), obj, metav1.CreateOptions{}))
	expect(t, owners(done.Object), `volsim Update {"f:spec":{".":{},"f:color":{},"f:count":{}}}`+"\n")

	scale, _ := c.Scale()
	config := []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":3}}`)
	opts := metav1.PatchOptions{FieldManager: "h"}
	_, err := scale.Patch(w.Context(), "a", types.ApplyYAMLPatchType, config, opts)
	expectError(t, err, apierrors.IsConflict, `Apply failed with 1 conflict: conflict with "volsim" using autoscaling/v1: .spec.replicas`)
	force := true
	opts.Force = &force
	testcheck.Must(scale.Patch(w.Context(), "a", types.ApplyYAMLPatchType, config, opts))
	stored := testcheck.Must(c.Get(w.Context(), "a", metav1.GetOptions{}))
	expect(t, owners(stored), `h Apply/scale {"f:spec":{"f:count":{}}}`+"\n"+`volsim Update {"f:spec":{".":{},"f:color":{}}}`+"\n")

	gvr.Version = "v2"
	config = []byte(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"colour":"blue"}}`)
	_, err = w.resource(gvr).Patch(w.Context(), "a", types.ApplyYAMLPatchType, config,
		metav1.PatchOptions{FieldManager: "two"})
	expectError(t, err, apierrors.IsConflict, `Apply failed with 1 conflict: conflict with "volsim" using example.com/v1: .spec.color`)
}

// A manager owns what a write through a subresource changes, as the strategies' GetResetFields and
// the conversions of the real server say.
func TestManagedFieldsOfWorkloads(t *testing.T) {
	w := newWorldWith(t, fake.Config{TrackManagedFields: true})
	by := func(manager string) metav1.CreateOptions { return metav1.CreateOptions{FieldManager: manager} }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: newPod("p").Spec}
	const counter = appsv1.DeprecatedTemplateGeneration
	owned := func(obj metav1.Object, manager, path string) bool {
		for _, e := range obj.GetManagedFields() {
			if fields := testcheck.Must(e.FieldsV1.MarshalJSON()); e.Manager == manager && strings.Contains(string(fields), path) {
				return true
			}
		}
		return false
	}

	daemons := w.User.AppsV1().DaemonSets("default")
	d := testcheck.Must(daemons.Create(w.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, by("creator")))
	expect(t, owned(d, "creator", `"f:annotations":{".":{},"f:`+counter+`":{}}`), true)
	d.Annotations, d.Labels = nil, map[string]string{"l": "1"}
	d = testcheck.Must(daemons.UpdateStatus(w.Context(), d, metav1.UpdateOptions{FieldManager: "status"}))
	expect(t, d.Annotations, map[string]string{counter: "1"})
	expect(t, owned(d, "status", `"f:labels"`), true)
	expect(t, owned(d, "status", counter), true)
	d.Spec.MinReadySeconds = 1
	d = testcheck.Must(daemons.Update(w.Context(), d, metav1.UpdateOptions{FieldManager: "other"}))
	expect(t, owned(d, "other", counter), false)

	deployments := w.User.AppsV1().Deployments("default")
	p := testcheck.Must(deployments.Create(w.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{"l": "0"}},
		Spec:       appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, by("creator")))
	p.Labels, p.Status.ObservedGeneration = map[string]string{"l": "1"}, 1
	p = testcheck.Must(deployments.UpdateStatus(w.Context(), p, metav1.UpdateOptions{FieldManager: "status"}))
	expect(t, p.Labels["l"], "0")
	expect(t, owned(p, "status", "f:labels"), false)
	expect(t, owned(p, "creator", "f:labels"), true)
}
