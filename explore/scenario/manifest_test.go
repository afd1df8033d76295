package scenario_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

const claimYAML = `apply
# a comment
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: slow}
provisioner: example.com/slow
`

func TestManifestParsesBack(t *testing.T) {
	a, err := scenario.ParseAct(claimYAML)
	if err != nil {
		t.Fatal(err)
	}
	want := `apply {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],` +
		`"resources":{"requests":{"storage":"64Mi"}}}} {"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"slow"},"provisioner":"example.com/slow"}`
	if a.String() != want {
		t.Errorf("act %s\nwant %s", a, want)
	}
	again, err := scenario.ParseAct(a.String())
	if err != nil || again.String() != want {
		t.Errorf("parsed again: %s, %v", again, err)
	}
	if _, err := scenario.Parse("x", "user a\n  "+a.String()); err != nil {
		t.Errorf("in a scenario: %v", err)
	}
}

func TestInvalidManifests(t *testing.T) {
	for _, c := range []struct{ manifest, want string }{
		{"", "no object"},
		{"---", "no object"},
		{"data", "apply"},
		{"{kind: Pod}", "apiVersion"},
		{"{apiVersion: v1, kind: Pod}", "Pod without a name"},
		{"{apiVersion: v1, kind: Secret, metadata: {name: s}, specs: {}}", `unknown field "specs"`},
		{"{kind: Widget, metadata: {name: w}}", "Widget without an apiVersion"},
		{"{apiVersion: example.com/v1, kind: Widget, metadata: {labels: {a: b}}}", "Widget without a name"},
		{"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod}]}", "Pod without a name"},
		{"{apiVersion: v2, kind: Pod, metadata: {name: p}}", "v2"},
		{"{apiVersion: v1, kind: Pod, metadata: {name: p}, specs: {}}", `unknown field "specs"`},
	} {
		if a, err := scenario.ParseAct("apply " + c.manifest); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: act %q, error %v, want %q", c.manifest, a, err, c.want)
		}
	}
}

func TestApplyChangesAnExistingObject(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}, Components: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	apply := func(text string) error {
		t.Helper()
		a, err := scenario.ParseAct(text)
		if err != nil {
			t.Fatal(err)
		}
		return a.Do(context.Background(), c, nil)
	}
	part := "apply {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, labels: {app: web}}}"
	for _, text := range []string{claimYAML, part} {
		if err := apply(text); err != nil {
			t.Fatal(err)
		}
	}
	stored, _ := c.Server().Get("persistentvolumeclaims", "default", "data")
	if claim := stored.(*corev1.PersistentVolumeClaim); claim.Labels["app"] != "web" {
		t.Errorf("labels %v after the second apply", claim.Labels)
	}
	if err := apply(strings.Replace(claimYAML, "example.com/slow", "example.com/fast", 1)); err == nil || !strings.Contains(err.Error(), "provisioner") {
		t.Errorf("error %v, want the server's, about the immutable provisioner", err)
	}
}
