package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A manifest has objects of any kind, in YAML or JSON. Another manifest changes them.
func TestApply(t *testing.T) {
	things := fake.CustomKind{Group: "example.com", Versions: []string{"v1"}, Resource: "things", Kind: "Thing", Namespaced: true}
	c := started(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{{
		Name: "none", Install: func(s *fake.Server) error { s.Install(things); return nil },
		Start: func(cluster.ComponentContext) error { return nil },
	}}})
	apply := func(manifest string) {
		t.Helper()
		if err := c.Apply(t.Context(), manifest); err != nil {
			t.Error(err)
		}
	}
	apply(`
# a namespace, and what is in it
apiVersion: v1
kind: Namespace
metadata: {name: shop}
--- # the configuration
apiVersion: v1
kind: ConfigMap
metadata: {name: m, namespace: shop}
data: {a: "1", b: "2"}
---

---
{"apiVersion": "v1", "kind": "List", "items": [
	{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"size": 3}}
]}
{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "a"}
`)
	apply(`
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: indented}
`)
	apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: shop}, data: {b: "3", c: "4"}}`)
	m, err := c.Client().CoreV1().ConfigMaps("shop").Get(t.Context(), "m", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b": "3", "c": "4"}, m.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	thing, ok := c.Server().Get("things.example.com", "default", "x")
	if !ok || !cmp.Equal(thing.(*fake.CustomObject).Content["spec"], any(map[string]any{"size": int64(3)})) {
		t.Errorf("thing: %v", thing)
	}
	if _, ok := c.Server().Get("storageclasses", "", "fast"); !ok {
		t.Error("no class")
	}
}

// The error of a manifest names the document and the line.
func TestApplyErrors(t *testing.T) {
	c := started(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	const first = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n---\n# second\n"
	for _, test := range []struct{ manifest, want string }{
		{"", "apply: no object in the manifest"},
		{"---\n# nothing\n", "apply: no object in the manifest"},
		{first + "kind: Pod", "apply: document 2 at line 6: Pod without apiVersion"},
		{first + "data: {}", "apply: document 2 at line 6: no kind"},
		{first + "- a", "apply: document 2 at line 6: not an object"},
		{first + "kind: Pod\napiVersion: v1\n  metadata: {}", "apply: document 2 at line 6: yaml: line 8: mapping values are not allowed in this context"},
		{first + "kind: Pod\napiVersion: v1\nkind: Pod", "apply: document 2 at line 6: yaml: unmarshal errors: line 8: key \"kind\" already set in map"},
		{"{}\n{", "apply: document 1 at line 1: no kind"},
		{`{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}}` + "\n\n{\"", "apply: document 2 at line 3: unexpected EOF"},
		{"kind: Pot\napiVersion: v1", `apply: document 1 at line 1: no kind "Pot" in v1: not served by the API server`},
		{"kind: StorageClass\napiVersion: v1", `apply: document 1 at line 1: no kind "StorageClass" in v1 (have storage.k8s.io/v1)`},
		{"kind: Pod\napiVersion: v1", "apply: document 1 at line 1: Pod without metadata.name"},
		{
			"kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1",
			"apply: document 1 at line 1: CustomResourceDefinition: the server has no custom resources; call crd.Serve, or use Config.CRDDirectoryPaths",
		},
		{
			"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndatum: {}",
			"apply: document 1 at line 1: ConfigMap default/a: failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .datum: field not declared in schema",
		},
		{
			"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: none}",
			`apply: document 1 at line 1: ConfigMap none/a: namespaces "none" not found`,
		},
	} {
		err := c.Apply(t.Context(), test.manifest)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.manifest, err, test.want)
		}
		if _, ok := c.Server().Get("configmaps", "default", "first"); ok {
			t.Errorf("%q: the first document was applied", test.manifest)
		}
	}
	err := c.Apply(t.Context(), "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: none}")
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want a NotFound", err)
	}
}
