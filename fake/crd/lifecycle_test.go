package crd_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// commits records commits: type, resource, name, and for definitions the conditions.
func (w *world) commits() *[]string {
	var all []string
	w.Server.OnCommit(func(c fake.Commit) {
		obj := c.After.(*fake.CustomObject)
		line := fmt.Sprintf("%s %s %s", c.Type, strings.SplitN(c.Resource, ".", 2)[0], obj.Name)
		if obj.DeletionTimestamp != nil {
			line += " going"
		}
		if c.Resource == "customresourcedefinitions.apiextensions.k8s.io" {
			line += conditions(obj)
		}
		all = append(all, line)
	})
	return &all
}

// conditions returns the conditions of a definition, as in " Established=True".
func conditions(obj *fake.CustomObject) string {
	var out strings.Builder
	status, _ := obj.Content["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	for _, c := range all {
		m := c.(map[string]any)
		fmt.Fprintf(&out, " %s=%s/%s", m["type"], m["status"], m["reason"])
	}
	return out.String()
}

const (
	live  = " NamesAccepted=True/NoConflicts Established=True/InitialNamesAccepted"
	begun = live + " Terminating=True/InstanceDeletionPending"
	going = live + " Terminating=True/InstanceDeletionInProgress"
)

func TestDeletionDeletesTheObjects(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1}}`)
	w.create(widgets, "kube-system", `{metadata: {name: b}, spec: {size: 1}}`)
	all := w.commits()
	done := w.delete(definitions, "", "widgets.shop.example.com")
	expect(t, false, done.Deleted)
	expect(t, []string{"customresourcecleanup.apiextensions.k8s.io"}, done.Object.GetFinalizers())
	expect(t, []string{
		"MODIFIED customresourcedefinitions widgets.shop.example.com going" + begun,
		"MODIFIED customresourcedefinitions widgets.shop.example.com going" + going,
		"DELETED widgets a",
		"DELETED widgets b",
		"DELETED customresourcedefinitions widgets.shop.example.com going" + going,
	}, *all)
	if _, served := w.User.Resource(widgets, "default"); served {
		t.Error("widgets are still served")
	}
	expect(t, 0, len(w.Server.List("customresourcedefinitions.apiextensions.k8s.io")))
}

func TestDeletionWaitsForFinalizers(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a, finalizers: [x.io/y]}, spec: {size: 1}}`)
	w.create(widgets, "default", `{metadata: {name: b}, spec: {size: 1}}`)
	w.delete(definitions, "", "widgets.shop.example.com")
	expect(t, going, conditions(w.get(definitions, "", "widgets.shop.example.com")))
	expect(t, 1, w.Server.Count("widgets.shop.example.com"))

	_, err := w.try(widgets, "default", `{metadata: {name: c}, spec: {size: 1}}`)
	expectError(t, `widgets.shop.example.com "c" is forbidden: create not allowed while custom resource definition is terminating`, err)

	again := w.delete(definitions, "", "widgets.shop.example.com")
	expect(t, going, conditions(again.Object.(*fake.CustomObject)))

	testcheck.Must(w.patch(widgets, "default", "a", `{"metadata":{"finalizers":null}}`))
	expect(t, 0, len(w.Server.List("customresourcedefinitions.apiextensions.k8s.io")))
	w.create(definitions, "", read(t, "testdata/widgets.yaml"))
	list, err := w.resource(widgets, "").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, 0, len(list.Objects))
}

// TestDefinitionWithAnotherFinalizer checks that the definition outlives its resource.
func TestDefinitionWithAnotherFinalizer(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	testcheck.Must(w.patch(definitions, "", "widgets.shop.example.com", `{"metadata":{"finalizers":["x.io/y"]}}`))
	w.delete(definitions, "", "widgets.shop.example.com")
	left := w.get(definitions, "", "widgets.shop.example.com")
	expect(t, []string{"x.io/y"}, left.Finalizers)
	expect(t, live+" Terminating=False/InstanceDeletionCompleted", conditions(left))
	testcheck.Must(w.patch(definitions, "", "widgets.shop.example.com", `{"metadata":{"finalizers":null}}`))
	expect(t, 0, len(w.Server.List("customresourcedefinitions.apiextensions.k8s.io")))
}

// Removing the cleanup finalizer deletes the objects, also if a user removes it.
func TestCleanupFinalizerRemoved(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a, finalizers: [x.io/y]}, spec: {size: 1}}`)
	w.delete(definitions, "", "widgets.shop.example.com")
	expect(t, 1, len(w.Server.List("widgets.shop.example.com")))
	testcheck.Must(w.patch(definitions, "", "widgets.shop.example.com", `{"metadata":{"finalizers":null}}`))
	expect(t, 0, len(w.Server.List("customresourcedefinitions.apiextensions.k8s.io")))
	definition, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.create(definitions, "", string(definition))
	expect(t, 0, len(w.Server.List("widgets.shop.example.com")))
}

func TestDryRunChangesNothing(t *testing.T) {
	w := newWorld(t)
	dry := []string{metav1.DryRunAll}
	_, err := w.resource(definitions, "").Create(w.Context(), object(t, read(t, "testdata/widgets.yaml")),
		metav1.CreateOptions{DryRun: dry})
	if err != nil {
		t.Fatal(err)
	}
	if _, served := w.User.Resource(widgets, ""); served {
		t.Error("a dry run installed something")
	}
	w.create(definitions, "", read(t, "testdata/widgets.yaml"))
	before := w.Server.Revision()
	if _, err := w.resource(definitions, "").Delete(w.Context(), "widgets.shop.example.com",
		metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	expect(t, before, w.Server.Revision())
}

// small returns a minimal definition in YAML.
func small(plural, kind string, more string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: %[1]s.shop.example.com},
		spec: {group: shop.example.com, scope: Cluster, names: {plural: %[1]s, kind: %[2]s%[3]s},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`, plural, kind, more)
}

func TestNamesInUse(t *testing.T) {
	w := newWorld(t)
	w.create(definitions, "", small("knobs", "Knob", ", shortNames: [k]"))
	for _, tt := range []struct {
		name, plural, kind, more, want, message string
	}{
		{"kind", "dials", "Knob", ", singular: dial, listKind: DialList", "KindConflict", `"Knob" is already in use`},
		{"list kind", "dials", "Dial", ", listKind: KnobList", "ListKindConflict", `"KnobList" is already in use`},
		{"singular", "dials", "Dial", ", singular: knob", "SingularConflict", `"knob" is already in use`},
		{"plural as a short name", "k", "Dial", "", "PluralConflict", `"k" is already in use`},
		{
			"short names", "dials", "Dial", ", shortNames: [k, knobs, d]", "ShortNamesConflict",
			`["k" is already in use, "knobs" is already in use]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := w.create(definitions, "", small(tt.plural, tt.kind, tt.more))
			expect(t, " NamesAccepted=False/"+tt.want+" Established=False/NotAccepted", conditions(obj))
			first := obj.Content["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)
			expect(t, tt.message, first["message"].(string))
			if _, served := w.User.Resource(schema.GroupVersionResource{
				Group: "shop.example.com", Version: "v1", Resource: tt.plural,
			}, ""); served {
				t.Error("it is served")
			}
			w.delete(definitions, "", obj.Name)
			expect(t, 1, len(w.Server.List("customresourcedefinitions.apiextensions.k8s.io")))
		})
	}
}

func TestReleasedNames(t *testing.T) {
	w := newWorld(t)
	w.create(definitions, "", small("knobs", "Knob", ""))
	w.create(definitions, "", small("dials", "Knob", ", singular: dial, listKind: DialList"))
	w.delete(definitions, "", "knobs.shop.example.com")
	expect(t, live, conditions(w.get(definitions, "", "dials.shop.example.com")))
	dials := schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "dials"}
	expect(t, "Knob", w.create(dials, "", `{metadata: {name: a}}`).Kind)
}

func TestUpdateOfADefinition(t *testing.T) {
	const name = "widgets.shop.example.com"
	for _, tt := range []struct{ name, patch, want string }{
		{"labels", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"another column", `[{"op":"replace","path":"/spec/versions/0/additionalPrinterColumns","value":[]}]`, ""},
		{
			"the group", `{"spec":{"group":"other.example.com"}}`,
			`[spec.group: Invalid value: "other.example.com": field is immutable]`,
		},
		{"the scope", `{"spec":{"scope":"Cluster"}}`, `spec.scope: Invalid value: "Cluster": field is immutable`},
		{
			"the kind", `{"spec":{"names":{"kind":"Gadget"}}}`,
			`spec.names.kind: Invalid value: "Gadget": field is immutable`,
		},
		{
			"a stored version", `[{"op":"remove","path":"/spec/versions/0"},{"op":"add","path":"/spec/versions/0/storage","value":true}]`,
			`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, ` +
				`and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and ` +
				`removes v1 from status.storedVersions`,
		},
		{
			"no storage version", `[{"op":"replace","path":"/spec/versions/0/storage","value":false}]`,
			"must have exactly one version marked as storage version",
		},
		{
			"a webhook", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://x.example.com/"}}}}}`,
			"",
		},
		{
			"a webhook without https", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"http://x.example.com/"}}}}}`,
			`spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; ` +
				`desired format: https://host[/path]`,
		},
		{
			"a webhook of an unknown review version", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v2"],"clientConfig":{"url":"https://x.example.com/"}}}}}`,
			`spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "testdata/widgets.yaml")
			_, err := w.patch(definitions, "", name, tt.patch)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), strings.Trim(tt.want, "[]"))):
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestGenerationOfADefinition(t *testing.T) {
	const name = "widgets.shop.example.com"
	w := newWorld(t, "testdata/widgets.yaml")
	got := []int64{w.get(definitions, "", name).Generation}
	for _, patch := range []string{
		`{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"names":{"categories":["some"]}}}`,
		`{"status":{"storedVersions":["v9"]}}`,
	} {
		got = append(got, testcheck.Must(w.patch(definitions, "", name, patch)).Generation)
	}
	expect(t, []int64{1, 1, 2, 2}, got)
	is := testcheck.Must(w.patch(definitions, "", name,
		`{"metadata":{"labels":{"a":"c"}},"spec":{"scope":"Cluster"},"status":{"storedVersions":["v1","v0"]}}`,
		"status"))
	expect(t, "c", is.Labels["a"]) // the real server keeps such metadata
	expect(t, `["v1","v0"]`, text(t, is.Content["status"].(map[string]any)["storedVersions"]))
	expect(t, "Namespaced", is.Content["spec"].(map[string]any)["scope"].(string))
}

// TestChangedSchema checks that stored objects are shown, and writes validated, by the current
// schema.
func TestChangedSchema(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1, note: hi}}`)
	const spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
	testcheck.Must(w.patch(definitions, "", "widgets.shop.example.com", `[{"op":"remove","path":"`+spec+`/note"},`+
		`{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/1"},`+
		`{"op":"add","path":"`+spec+`/mode","value":{"type":"string","default":"fast"}}]`))
	shown := w.get(widgets, "default", "a")
	expect(t, `{"spec":{"color":"red","mode":"fast","size":1}}`, text(t, shown.Content))
	after := testcheck.Must(w.patch(widgets, "default", "a", `{"metadata":{"labels":{"a":"b"}}}`))
	expect(t, `{"spec":{"color":"red","mode":"fast","size":1}}`, text(t, after.Content))
	expect(t, int64(1), after.Generation)
}

// TestStorageVersion checks that a new storage version is recorded, and that a write without
// changes migrates an object.
func TestStorageVersion(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1}}`)
	changed := testcheck.Must(w.patch(definitions, "", "widgets.shop.example.com",
		`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`))
	expect(t, `["v1","v1beta1"]`, text(t, changed.Content["status"].(map[string]any)["storedVersions"]))
	stored := func() string {
		obj, _ := w.Server.Get("widgets.shop.example.com", "default", "a")
		return text(t, obj.(*fake.CustomObject).APIVersion) + text(t, obj.(*fake.CustomObject).Content)
	}
	expect(t, `"shop.example.com/v1"{"spec":{"color":"red","size":1}}`, stored())
	testcheck.Must(w.patch(widgets, "default", "a", `{}`))
	expect(t, `"shop.example.com/v1beta1"{"spec":{"size":1}}`, stored()) // defaults of v1beta1 are not stored
	expect(t, `{"spec":{"old":"was","size":1}}`, text(t, w.get(oldWidgets, "default", "a").Content))
	expect(t, `{"spec":{"size":1}}`, text(t, w.get(widgets, "default", "a").Content))
}

// TestVersionThatIsNotServed checks that an unserved version has no resource and that no data is
// lost.
func TestVersionThatIsNotServed(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1}}`)
	serve := func(v1, v1beta1 bool) []bool {
		testcheck.Must(w.patch(definitions, "", "widgets.shop.example.com", fmt.Sprintf(
			`[{"op":"replace","path":"/spec/versions/0/served","value":%v},{"op":"replace","path":"/spec/versions/1/served","value":%v}]`, v1, v1beta1)))
		_, one := w.User.Resource(widgets, "default")
		_, two := w.User.Resource(oldWidgets, "default")
		return []bool{one, two}
	}
	expect(t, []bool{false, true}, serve(false, true))
	expect(t, `{"spec":{"size":1}}`, text(t, w.get(oldWidgets, "default", "a").Content))
	expect(t, []bool{false, false}, serve(false, false))
	expect(t, []bool{true, false}, serve(true, false))
	expect(t, `{"spec":{"color":"red","size":1}}`, text(t, w.get(widgets, "default", "a").Content))
}
