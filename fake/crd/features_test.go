package crd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// TestWatch watches the resource of a definition until the definition is deleted.
func TestWatch(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1}}`)
	c, err := w.resource(oldWidgets, "").Watch(w.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testcheck.Must(w.patch(widgets, "default", "a", `{"spec":{"size":2}}`))
	w.delete(definitions, "", "widgets.shop.example.com")
	var got []string
	for {
		e, ok, err := c.Next()
		if err != nil {
			expect(t, true, apierrors.IsResourceExpired(err))
			break
		}
		if !ok {
			t.Fatal("the watch does not end")
		}
		obj := e.Object.(*fake.CustomObject)
		got = append(got, fmt.Sprintf("%s %s %s", e.Type, obj.APIVersion, text(t, obj.Content)))
	}
	expect(t, []string{
		`ADDED shop.example.com/v1beta1 {"spec":{"size":1}}`,
		`MODIFIED shop.example.com/v1beta1 {"spec":{"size":2}}`,
		`DELETED shop.example.com/v1beta1 {"spec":{"size":2}}`,
	}, got)
	select {
	case <-c.Changed():
	default:
		t.Error("the waiting reader is not woken")
	}
}

func TestFieldSelectors(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	for i, color := range []string{"red", "green", "red"} {
		w.create(widgets, "default", fmt.Sprintf(`{metadata: {name: w%d}, spec: {size: 1, color: %s}}`, i, color))
	}
	for _, tt := range []struct{ name, selector, want string }{
		{"a field of the version", "spec.color=red", "w0 w2"},
		{"not", "spec.color!=red", "w1"},
		{"with a name", "spec.color=red,metadata.name=w2", "w2"},
		{"another field", "spec.size=1", "field label not supported: spec.size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := w.resource(widgets, "").List(w.Context(), metav1.ListOptions{FieldSelector: tt.selector})
			if err != nil {
				expectError(t, tt.want, err)
				return
			}
			var names []string
			for _, obj := range list.Objects {
				names = append(names, obj.GetName())
			}
			expect(t, tt.want, strings.Join(names, " "))
		})
	}
	_, err := w.resource(oldWidgets, "").List(w.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
	expectError(t, "field label not supported: spec.color", err)
	_, err = w.resource(definitions, "").List(w.Context(), metav1.ListOptions{FieldSelector: "metadata.namespace=x"})
	expectError(t, "field label not supported: metadata.namespace", err)
}

func TestScale(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1, replicas: 2}}`)
	testcheck.Must(w.patch(widgets, "default", "a", `{"status":{"replicas":1,"selector":"a=b"}}`, "status"))
	c, ok := w.resource(widgets, "default").Scale()
	if !ok {
		t.Fatal("no scale")
	}
	obj, err := c.Get(w.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale := obj.(*autoscalingv1.Scale)
	expect(t, autoscalingv1.ScaleSpec{Replicas: 2}, scale.Spec)
	expect(t, autoscalingv1.ScaleStatus{Replicas: 1, Selector: "a=b"}, scale.Status)
	done, err := c.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, int32(5), done.Object.(*autoscalingv1.Scale).Spec.Replicas)
	got := w.get(widgets, "default", "a")
	expect(t, `{"color":"red","replicas":5,"size":1}`, text(t, got.Content["spec"]))
	expect(t, int64(2), got.Generation)
	if _, ok := w.resource(oldWidgets, "default").Scale(); ok {
		t.Error("v1beta1 has a scale")
	}
}

func TestDescription(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	var got []string
	for _, r := range w.Server.Resources() {
		if r.Custom == nil {
			continue
		}
		line := fmt.Sprint(r.Name, " ", r.SingularName, " ", r.Kind, " ", r.Group, "/", r.Version, " ", r.Namespaced,
			r.ShortNames, r.Categories)
		for _, s := range r.Subresources {
			line += " " + s.Name
		}
		got = append(got, line)
	}
	expect(t, []string{
		"customresourcedefinitions customresourcedefinition CustomResourceDefinition apiextensions.k8s.io/v1 false [crd crds] [api-extensions] customresourcedefinitions/status",
		"widgets widget Widget shop.example.com/v1 true [wg] [all] widgets/scale widgets/status",
		"widgets widget Widget shop.example.com/v1beta1 true [wg] [all]",
	}, got)
}

func TestDeprecatedVersions(t *testing.T) {
	w := newWorld(t)
	if err := crd.InstallFS(w.Context(), w.User, os.DirFS("../../internal/snapshotapi/definitions")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range w.Server.Resources() {
		if r.Custom != nil && strings.HasSuffix(r.Name, "classes") {
			got = append(got, r.Group+"/"+r.Version+" "+r.Custom.Deprecated[r.Version])
		}
	}
	expect(t, []string{
		"groupsnapshot.storage.k8s.io/v1 ",
		"groupsnapshot.storage.k8s.io/v1beta2 ",
		"groupsnapshot.storage.k8s.io/v1beta1 groupsnapshot.storage.k8s.io/v1beta1 VolumeGroupSnapshotClass is deprecated; " +
			"use groupsnapshot.storage.k8s.io/v1 VolumeGroupSnapshotClass",
		"snapshot.storage.k8s.io/v1 ",
	}, got)
}

func TestColumns(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	show := func(columns []fake.Column) []string {
		var all []string
		for _, c := range columns {
			all = append(all, fmt.Sprintf("%s %s %d %s: %.30s", c.Name, c.Type, c.Priority, c.JSONPath, c.Description))
		}
		return all
	}
	c := w.resource(widgets, "").Describe().Custom
	expect(t, []string{
		"Size integer 0 .spec.size: Custom resource definition col", "Ready boolean 1 .status.ready: whether it is",
	}, show(c.Columns("v1")))
	expect(t, []string{"Age date 0 .metadata.creationTimestamp: CreationTimestamp is a timesta"},
		show(c.Columns("v1beta1")))
}

// TestSchema compares the published schema with that of the real server.
func TestSchema(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	var want, got any
	for from, into := range map[string]*any{
		read(t, "testdata/widgets.openapi.json"):                        &want,
		text(t, w.resource(widgets, "").Describe().Custom.Schema("v1")): &got,
	} {
		if err := json.Unmarshal([]byte(from), into); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, want, got)
}

// TestSchemaOfDefinitions checks that the schema refers only to definitions that are in every
// document.
func TestSchemaOfDefinitions(t *testing.T) {
	w := newWorld(t)
	got := text(t, w.resource(definitions, "").Describe().Custom.Schema("v1"))
	expect(t, 1, strings.Count(got, `"$ref":"#`))
	for _, want := range []string{
		`"storedVersions"`, `"openAPIV3Schema"`, `"x-kubernetes-validations"`,
		`"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestApplyDefinition checks that applied definitions are merged as upstream merges them: versions
// as a whole.
func TestApplyDefinition(t *testing.T) {
	w := newWorld(t)
	c := w.resource(definitions, "")
	for _, manager := range []string{"one", "two"} {
		done, err := c.Patch(w.Context(), "knobs.shop.example.com", types.ApplyYAMLPatchType,
			[]byte(small("knobs", "Knob", "")),
			metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, manager == "one", done.Created)
		expect(t, live, conditions(done.Object.(*fake.CustomObject)))
	}
	_, err := c.Patch(w.Context(), "knobs.shop.example.com", types.ApplyYAMLPatchType,
		[]byte(small("knobs", "Knob", ", categories: [x]")),
		metav1.PatchOptions{FieldManager: "two"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, `["x"]`, text(t,
		w.get(definitions, "",
			"knobs.shop.example.com").Content["spec"].(map[string]any)["names"].(map[string]any)["categories"]))
}

func TestApply(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	c := w.resource(widgets, "default")
	apply := func(manager, body string) (*fake.CustomObject, error) {
		done, err := c.Patch(w.Context(), "a", types.ApplyYAMLPatchType, []byte(body),
			metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			return nil, err
		}
		return done.Object.(*fake.CustomObject), nil
	}
	const head = `{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":`
	if _, err := apply("one", head+`{"size":1,"tags":["a"],"ports":[{"port":1}]}}`); err != nil {
		t.Fatal(err)
	}
	obj, err := apply("two", head+`{"size":1,"tags":["b"],"ports":[{"port":2}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, `{"color":"red","ports":[{"port":1,"protocol":"TCP"},{"port":2,"protocol":"TCP"}],"size":1,"tags":["a","b"]}`,
		text(t, obj.Content["spec"])) // sets and maps are merged
	_, err = apply("two", head+`{"size":3}}`)
	expectError(t, `Apply failed with 1 conflict: conflict with "one": .spec.size`, err)
}

func TestInstall(t *testing.T) {
	w := newWorld(t)
	text := "# nothing\n---\n" + small("knobs", "Knob", "") +
		"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n" + small("dials", "Dial", "")
	if err := crd.Install(w.Context(), w.User, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	expect(t, 2, w.Server.Count(crd.Definitions))
	expectError(t, `create definition: customresourcedefinitions.apiextensions.k8s.io "knobs.shop.example.com" already exists`,
		crd.Install(w.Context(), w.User, strings.NewReader(small("knobs", "Knob", ""))))
	bare := testworld.New(t, sim.SteppedConfig{}).User
	expectError(t, "the server does not serve CustomResourceDefinitions; call crd.Serve",
		crd.Install(w.Context(), bare, strings.NewReader("")))
}

// TestSameIsSame checks that two servers with the same requests have the same state.
func TestSameIsSame(t *testing.T) {
	state := func() string {
		w := newWorld(t, "testdata/widgets.yaml")
		all := w.commits()
		if err := crd.InstallFS(w.Context(), w.User, os.DirFS("../../internal/snapshotapi/definitions")); err != nil {
			t.Fatal(err)
		}
		w.create(widgets, "default",
			`{metadata: {name: a, finalizers: [x.io/y]}, spec: {size: 1, any: {c: 1, b: 2, a: 3}}}`)
		w.create(widgets, "default", `{metadata: {name: b}, spec: {size: 1}}`)
		_, err := w.try(widgets, "default",
			`{metadata: {name: c}, spec: {size: x, color: 1, tags: 1, ports: 1, note: 1, replicas: x}}`)
		w.delete(definitions, "", "widgets.shop.example.com")
		out := fmt.Sprint(*all, err)
		for _, r := range w.Server.Resources() {
			if r.Custom != nil && r.Custom.Schema != nil {
				out += text(t, w.Server.List(r.Name+"."+r.Group)) + text(t, r.Custom.Schema(r.Version))
			}
		}
		return out
	}
	first := state()
	for range 5 {
		if d := cmp.Diff(first, state()); d != "" {
			t.Fatalf("(-first +again)\n%s", d)
		}
	}
}

// TestDefaultTwiceIsDefaultOnce checks that pruning and defaulting are idempotent, in both versions
// and across conversion.
func TestDefaultTwiceIsDefaultOnce(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	kind := w.resource(widgets, "").Describe().Custom
	rapid.Check(t, func(t *rapid.T) {
		obj := &fake.CustomObject{Content: map[string]any{"spec": value(t, 3)}}
		obj.APIVersion = "shop.example.com/" + rapid.SampledFrom([]string{"v1", "v1beta1"}).Draw(t, "version")
		if kind.Default(obj) != nil {
			return // it cannot be read
		}
		once := obj.DeepCopyObject().(*fake.CustomObject)
		if unknown := kind.UnknownFields(obj); len(unknown) > 0 {
			t.Fatalf("there are unknown fields left: %v", unknown)
		}
		if err := kind.Default(obj); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(once.Content, obj.Content); d != "" {
			t.Fatalf("(-once +twice)\n%s", d)
		}
		kind.Convert(obj, "v1beta1")
		obj.APIVersion = "shop.example.com/v1beta1"
		exists := obj.DeepCopyObject().(*fake.CustomObject)
		kind.Convert(obj, "v1beta1")
		if d := cmp.Diff(exists.Content["metadata"], obj.Content["metadata"]); d != "" {
			t.Fatalf("(-once +twice)\n%s", d)
		}
	})
}

// value draws JSON, with names that the schema knows and names that it does not.
func value(t *rapid.T, depth int) any {
	names := []string{
		"size", "color", "note", "nick", "tags", "ports", "port", "protocol", "any", "template", "spec", "old", "x",
	}
	kinds := 5
	if depth > 0 {
		kinds = 8
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Int64Range(-1, 3).Draw(t, "number")
	case 2:
		return rapid.SampledFrom([]string{"", "red", "x"}).Draw(t, "string")
	case 3:
		return rapid.Bool().Draw(t, "bool")
	case 4:
		return 1.5
	case 5:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = value(t, depth-1)
		}
		return list
	default:
		m := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			m[rapid.SampledFrom(names).Draw(t, "name")] = value(t, depth-1)
		}
		return m
	}
}

// BenchmarkInstall serves the snapshot kinds.
func BenchmarkInstall(b *testing.B) {
	now := func() time.Time { return sim.Epoch }
	for b.Loop() {
		s := fake.NewServer(fake.Config{Now: now})
		crd.Serve(s)
		if err := crd.InstallFS(b.Context(), s.Client(testworld.ImmediateCaller(now)), os.DirFS("../../internal/snapshotapi/definitions")); err != nil {
			b.Fatal(err)
		}
	}
}
