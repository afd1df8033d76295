package openapi_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/openapi"
)

// gadgetSchema is the schema of a recorded custom resource. It uses most features.
const gadgetSchema = `{
	"type": "object", "description": "A gadget.", "required": ["spec", "a"], "properties": {
		"spec": {
			"type": "object", "required": ["count", "z"], "oneOf": [{"required": ["count"]}],
			"x-kubernetes-validations": [{"rule": "self.count > 0"}],
			"properties": {
				"count": {"type": "integer", "format": "int32", "default": 3, "minimum": 1},
				"z": {"type": "string", "nullable": true, "enum": ["a", "b"]},
				"s": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
				"any": {"x-kubernetes-preserve-unknown-fields": true},
				"obj": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"q": {"type": "string"}}},
				"l": {
					"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
					"items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
				},
				"m": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
				"e": {
					"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
					"required": ["kind", "apiVersion"], "properties": {
						"metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "description":
							"Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"},
						"apiVersion": {"type": "string", "description": "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"},
						"kind": {"type": "string", "description": "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"}
					}
				}
			}
		},
		"a": {"type": "string", "pattern": "^a"}
	}
}`

// thingSchema is the schema of another one.
const thingSchema = `{"type": "object", "properties": {
	"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
}}`

// treeSchema refers to branchSchema, which refers to itself and to a missing definition.
const (
	treeSchema   = `{"type": "object", "properties": {"root": {"$ref": "#/components/schemas/com.example.trees.v1.Branch"}}}`
	branchSchema = `{"type": "object", "properties": {
		"twigs": {"type": "array", "items": {"$ref": "#/components/schemas/com.example.trees.v1.Branch"}},
		"since": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
		"leaf": {"$ref": "#/components/schemas/com.example.trees.v1.Leaf"}
	}}`
)

func schemaOf(text string) func(string) *spec.Schema {
	return func(version string) *spec.Schema {
		out := &spec.Schema{}
		if err := json.Unmarshal([]byte(text), out); err != nil {
			panic(err)
		}
		return out
	}
}

// served returns the resources of a server with the recorded custom resources.
func served() []fake.APIResource {
	s := fake.NewServer(fake.Config{Now: func() time.Time { return time.Time{} }})
	s.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "gadgets", Singular: "gadget", Kind: "Gadget",
		ListKind: "GadgetList",
		Status:   true, Schema: schemaOf(gadgetSchema),
	})
	s.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "things", Singular: "thing", Kind: "Thing",
		ListKind:   "ThingList",
		Namespaced: true, Status: true, Schema: schemaOf(thingSchema),
	})
	s.Install(fake.CustomKind{
		Group: "trees.example.com", Versions: []string{"v1"}, Resource: "trees", Kind: "Tree",
		Schema: schemaOf(treeSchema),
		Models: func() map[string]*spec.Schema {
			return map[string]*spec.Schema{"com.example.trees.v1.Branch": schemaOf(branchSchema)("")}
		},
	})
	s.Install(fake.CustomKind{
		Group: "loose.example.com", Versions: []string{"v1"}, Resource: "anythings", Kind: "Anything",
	})
	return s.Resources()
}

// v3 returns the version 3 documents by path, decoded.
func v3(t *testing.T, d *openapi.Document) map[string]map[string]any {
	t.Helper()
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	unmarshal(t, d.V3Index(), &index)
	all := map[string]map[string]any{}
	for path, entry := range index.Paths {
		body, ok := d.V3(path)
		if !ok {
			t.Fatalf("%s is in the index, but not there", path)
		}
		if want := "/openapi/v3/" + path + "?hash=" + openapi.Hash(body); entry.ServerRelativeURL != want {
			t.Errorf("got %s, want %s", entry.ServerRelativeURL, want)
		}
		doc := map[string]any{}
		unmarshal(t, body, &doc)
		all[path] = doc
	}
	return all
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// at returns the value at a path of maps.
func at(doc any, path ...string) map[string]any {
	for _, name := range path {
		doc = doc.(map[string]any)[name]
	}
	out, _ := doc.(map[string]any)
	return out
}

// lines reads a recording: lines of words, whose last word is the recorded value.
func lines(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		all[line[:i]] = line[i+1:]
	}
	return all
}

// isRecorded reports whether a document was recorded. A real server serves v1beta1 only with --runtime-config.
func isRecorded(path string) bool {
	return !strings.Contains(path, "loose") && !strings.Contains(path, "trees") && path != "apis/admissionregistration.k8s.io/v1beta1"
}

// TestDefinitionsAreThoseOfARealServer compares hashes of all version 3 definitions with those of
// kube-apiserver 1.36.3. To investigate a difference, run kubectl explain on both servers.
func TestDefinitionsAreThoseOfARealServer(t *testing.T) {
	if _, ok := reflect.TypeFor[storagev1.CSIDriverSpec]().FieldByName("PreventPodSchedulingIfMissing"); !ok {
		t.Skip("needs k8s.io/api v0.36")
	}
	if _, ok := reflect.TypeFor[storagev1.CSINode]().FieldByName("Status"); ok {
		t.Skip("needs k8s.io/api v0.36")
	}
	want := lines(t, "testdata/definitions.txt")
	for path, doc := range v3(t, openapi.New(served())) {
		if !isRecorded(path) {
			continue
		}
		for name, s := range at(doc, "components", "schemas") {
			data, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			key := path + " " + name
			if got := fmt.Sprintf("%x", sha256.Sum256(data))[:16]; got != want[key] {
				t.Errorf("%s: %s", key, data)
			}
		}
	}
}

// TestOperationsAreThoseOfARealServer compares names of operations, by path and method.
func TestOperationsAreThoseOfARealServer(t *testing.T) {
	want := lines(t, "testdata/operations.txt")
	seen := 0
	for path, doc := range v3(t, openapi.New(served())) {
		if !isRecorded(path) {
			continue
		}
		for p, methods := range at(doc, "paths") {
			for method, op := range methods.(map[string]any) {
				if method == "parameters" {
					continue
				}
				seen++
				key := p + " " + method
				if got := op.(map[string]any)["operationId"]; got != want[key] && key != "/api/v1/namespaces delete" {
					t.Errorf("%s: got %s, want %s", key, got, want[key])
				}
			}
		}
	}
	if seen < 300 {
		t.Errorf("only %d operations", seen)
	}
}

// TestEveryKindCanBePatched checks what kubectl requires before it applies an object.
func TestEveryKindCanBePatched(t *testing.T) {
	d := openapi.New(served())
	all := v3(t, d)
	for _, r := range served() {
		if !slices.Contains(r.Verbs, "patch") {
			continue
		}
		group := "api/" + r.Version
		if r.Group != "" {
			group = "apis/" + r.Group + "/" + r.Version
		}
		path := "/" + group + "/"
		if r.Namespaced {
			path += "namespaces/{namespace}/"
		}
		op := at(all[group], "paths", path+r.Name+"/{name}", "patch")
		want := map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}
		if diff := cmp.Diff(want, op["x-kubernetes-group-version-kind"]); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", path, diff)
		}
		if !slices.ContainsFunc(op["parameters"].([]any),
			func(p any) bool { return at(p)["name"] == "fieldValidation" && at(p)["in"] == "query" }) {
			t.Errorf("%s: no fieldValidation", path)
		}
	}
}

// TestReferencesResolve checks every $ref of every document.
func TestReferencesResolve(t *testing.T) {
	d := openapi.New(served())
	all := v3(t, d)
	body, _ := d.V2("")
	v2 := map[string]any{}
	unmarshal(t, body, &v2)
	all["v2"] = v2
	for path, doc := range all {
		prefix, defined := "#/components/schemas/", map[string]any(nil)
		if path == "v2" {
			prefix, defined = "#/definitions/", at(doc, "definitions")
		} else {
			defined = at(doc, "components", "schemas")
		}
		seen := 0
		each(doc, func(ref string) {
			seen++
			name, ok := strings.CutPrefix(ref, prefix)
			if _, exists := defined[name]; !ok || !exists {
				t.Errorf("%s: %s", path, ref)
			}
		})
		if seen == 0 {
			t.Errorf("%s: no references", path)
		}
	}
}

// each calls f with each $ref of a document.
func each(v any, f func(string)) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			f(ref)
		}
		for _, inner := range v {
			each(inner, f)
		}
	case []any:
		for _, inner := range v {
			each(inner, f)
		}
	}
}

func TestSameResourcesMakeTheSameDocuments(t *testing.T) {
	reversed := served()
	slices.Reverse(reversed)
	a, b := openapi.New(served()), openapi.New(reversed)
	for _, accept := range []string{"application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"} {
		is, _ := a.V2(accept)
		again, _ := b.V2(accept)
		if string(is) != string(again) {
			t.Errorf("%s differs", accept)
		}
	}
	if string(a.V3Index()) != string(b.V3Index()) {
		t.Errorf("the index differs")
	}
	if len(slices.Collect(maps.Keys(v3(t, a)))) < 10 {
		t.Errorf("documents are missing")
	}
}

// TestDocumentsAreBuiltAtOnce exercises the race detector.
func TestDocumentsAreBuiltAtOnce(t *testing.T) {
	d := openapi.New(served())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { d.V2("") })
		all.Go(func() { d.V2("application/com.github.proto-openapi.spec.v2@v1.0+protobuf") })
		all.Go(func() { d.V3Index() })
		all.Go(func() { d.V3("api/v1") })
	}
	all.Wait()
	is, _ := d.V2("")
	if want, _ := openapi.New(served()).V2(""); string(is) != string(want) {
		t.Error("another document than one that is built alone")
	}
}

func TestUnservedGroupHasNoDocument(t *testing.T) {
	d := openapi.New(served())
	for _, path := range []string{"", "api", "apis/storage.k8s.io", "apis/storage.k8s.io/v2"} {
		if body, ok := d.V3(path); ok {
			t.Errorf("%q: %s", path, body)
		}
	}
}

func TestV2IsNegotiated(t *testing.T) {
	const json, protobuf = "application/json", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	d := openapi.New(served())
	for accept, want := range map[string]string{
		"":                 json,
		"*/*":              json,
		"application/*":    json,
		"application/json": json,
		"application/com.github.proto-openapi.spec.v2@v1.0+protobuf":                        protobuf,
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf":                        protobuf,
		"application/com.github.proto-openapi.spec.v2@v1.0+protobuf, application/json":      protobuf,
		"application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.5,application/json": json,
		"text/html, */*;q=0.1": json,
		"text/html":            "",
		"application/yaml":     "",
	} {
		body, got := d.V2(accept)
		if got != want || (want == "") != (body == nil) {
			t.Errorf("%q: got %d bytes of %q, want %q", accept, len(body), got, want)
		}
	}
}
