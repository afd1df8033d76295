package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
)

const widgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {size: {type: string}, replicas: {type: integer}, ports: {type: array, items: {type: integer}}}},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

const webManifest = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: web, namespace: team}
spec: {size: 1Gi}
---
apiVersion: v1
kind: ConfigMap
metadata: {generateName: web-}
`

// widgetFiles returns a directory with a definition and a manifest.
func widgetFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"widgets.yaml": widgetDefinition, "web.yaml": webManifest} {
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

const widgetActs = `components: none
definitions: widgets.yaml
user alice
  apply {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}
  apply web.yaml
  wait widget team/web exists
  patch widgets team/web spec.size=2Gi spec.replicas=3 spec.ports=[80,443] metadata.annotations.example\.com/owner="the  team"
  patch widgets.example.com team/web status={"conditions":[{"status":"True","type":"Ready"}],"phase":"Done"}
  wait configmap m data.text=on|off data.n=3
  delete wd team/web
user bob
  wait wd team/web spec.ports[1]=443 spec.size=2Gi|3Gi condition=Ready condition=Failed=
  apply {"apiVersion":"v1","data":{"n":"3","text":"on"},"kind":"ConfigMap","metadata":{"name":"m"}}
  wait Widget team/web gone
  patch widget team/web spec.size=3Gi
  delete configmaps m
`

func TestActsForEveryResource(t *testing.T) {
	acts := strings.Replace(widgetActs, " condition=Failed=\n", " Done\n", 1)
	s, err := scenario.Parse("widgets", acts)
	testcheck.NoError(t, err)
	if s.String() != acts {
		t.Errorf("written again:\n%s\nwant\n%s", s, acts)
	}
	dir := widgetFiles(t)
	s.Dir = dir
	r, err := s.Run(t.Context(), scenario.Options{})
	testcheck.NoError(t, err)
	if r.Failure != nil {
		t.Fatal(r.Failure)
	}
	text := strings.ReplaceAll(r.Trace.Text(), "\t", " ")
	for _, want := range []string{
		"alice api create namespaces/team", "alice api create widgets/team/web", "alice api create configmaps/default/web-*",
		"alice api patch widgets/team/web", "alice api patch/status widgets/team/web", "alice api delete widgets/team/web",
		"bob api patch widgets/team/web error", "bob api delete configmaps/default/m",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}

	// The same scenario in another directory reads the same files.
	elsewhere := filepath.Join(dir, "saved", "here")
	moved := s.In(elsewhere)
	if got := moved.String(); !strings.Contains(got, "definitions: ../../widgets.yaml\n") || !strings.Contains(got, "  apply ../../web.yaml\n") {
		t.Errorf("in another directory:\n%s", got)
	}
	parsed, err := scenario.Parse("widgets", moved.String())
	testcheck.NoError(t, err)
	parsed.Dir = elsewhere
	for _, s := range []*scenario.Scenario{moved, parsed} {
		again, err := s.Run(t.Context(), scenario.Options{})
		testcheck.NoError(t, err)
		if again.Failure != nil || again.Trace.Text() != r.Trace.Text() {
			t.Errorf("another run: %v", again.Failure)
		}
	}
}

// A manifest may be in the lines below its apply.
func TestManifestInTheLinesBelow(t *testing.T) {
	s, err := scenario.Parse("below", `components: none
user alice
  apply
      apiVersion: v1
      # a comment
      kind: ConfigMap
      metadata:
        name: m

      data: {a: "# b"}
      ---
      {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]}
  delete secret s
user bob
  apply
    {apiVersion: v1, kind: Secret, metadata: {name: t}}
`)
	testcheck.NoError(t, err)
	const want = `components: none
user alice
  apply {"apiVersion":"v1","data":{"a":"# b"},"kind":"ConfigMap","metadata":{"name":"m"}} {"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}
  delete secret s
user bob
  apply {"apiVersion":"v1","kind":"Secret","metadata":{"name":"t"}}
`
	if s.String() != want {
		t.Errorf("got\n%swant\n%s", s, want)
	}
	r, err := s.Run(t.Context(), scenario.Options{})
	testcheck.NoError(t, err)
	if r.Failure != nil {
		t.Error(r.Failure)
	}
}

func TestInvalidActsForEveryResource(t *testing.T) {
	for text, want := range map[string]string{
		"user a\n  patch widget web":                           "line 2: act \"patch widget web\": want patch widget NAME PATH=VALUE …",
		"user a\n  patch widget":                               "want patch widget NAME PATH=VALUE …",
		"user a\n  patch widget web size":                      `unexpected "size": want PATH=VALUE`,
		"user a\n  patch widget web .size=1":                   `path ".size": want a path of fields`,
		"user a\n  patch widget web spec[0]=1":                 `a patch replaces a list as a whole: want spec=[…]`,
		"user a\n  patch widget web spec=1 spec.a=2":           "spec has a value of its own",
		"user a\n  patch widget web spec.a=1 status.b=2":       "the status is patched by an act of its own",
		"user a\n  patch widget web spec={\"a\":":              "the JSON value has no end",
		"user a\n  patch widget web spec=[1]2":                 `unexpected "2" after the JSON value`,
		"user a\n  wait widget web":                            "want wait widget NAME PHASE, PATH=VALUE",
		"user a\n  wait widget web gone spec.a=1":              "gone stands alone",
		"user a\n  wait claim data Gone":                       `phase "Gone" of a claim: want one of Pending, Bound, Lost, or exists or gone`,
		"user a\n  wait pod web Running|Bound":                 `phase "Bound" of a pod: want one of Pending, Running`,
		"user a\n  wait widget web condition=":                 "want the type of a condition",
		"user a\n  wait widget web spec..a=1":                  `path "spec..a"`,
		"user a\n  delete widget":                              "want delete widget NAME",
		"user a\n  delete widget web now=true":                 `unknown option "now="`,
		"components:\nuser a":                                  "line 1: components: want names of components, or none",
		"definitions:\nuser a":                                 "line 1: definitions: want the paths",
		"user a\n  apply\n    kind: [\n  delete claim data":    "line 2: apply: ",
		"user a\n  apply\n  delete claim data":                 "line 2: apply: no object in the manifest",
		"user a\n  cordon node-1\n  apply\n    {kind: Widget}": "line 3: apply: ",
	} {
		if _, err := scenario.Parse("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// What only the server knows is an error of the user, and what is missing on the disk an error of
// the scenario.
func TestUnknownResourcesAndFiles(t *testing.T) {
	for text, want := range map[string]string{
		"  delete cats tom": `user alice: delete cats tom: resource "cats": not served by the API server`,
		"  apply {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}": "the API server does not serve kind Widget of example.com/v1",
		"  delete storageclass a/b": "a/b: storageclasses have no namespace",
		"  apply missing.yaml":      "apply missing.yaml: open ",
		"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}\n  patch cm m metadata.labels.a=1": "cannot unmarshal number",
	} {
		s, err := scenario.Parse("one", "components: none\nuser alice\n"+text+"\n")
		testcheck.NoError(t, err)
		s.Dir = t.TempDir()
		r, err := s.Run(t.Context(), scenario.Options{})
		if err == nil {
			err = r.Failure
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	s, err := scenario.Parse("one", "definitions: none.yaml\nuser alice\n  cordon node-1\n")
	testcheck.NoError(t, err)
	if _, err := s.Run(t.Context(), scenario.Options{}); err == nil || !strings.Contains(err.Error(), "none.yaml: no such file") {
		t.Errorf("got error %v", err)
	}
}

// A wait whose condition never holds is pending.
func TestWaitForAFieldThatNeverComes(t *testing.T) {
	s, err := scenario.Parse("one", "components: none\nuser alice\n  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}\n  wait cm m data.a=1\n")
	testcheck.NoError(t, err)
	r, err := s.Run(t.Context(), scenario.Options{})
	testcheck.NoError(t, err)
	if r.Failure == nil || !strings.Contains(r.Failure.Error(), "cm m to be data.a=1") {
		t.Errorf("got %v", r.Failure)
	}
}

func FuzzAct(f *testing.F) {
	for _, act := range []string{
		"create claim data 1Gi class=", "delete pod web now=true", "apply a.yaml", "apply {apiVersion: v1, kind: Pod, metadata: {name: p}}",
		`patch widget a/web spec.size=2Gi spec.x={"a": [1, "b c"]} metadata.labels.a\.b="c  d"`, "wait widget web spec.a[1].b=c|d condition=Ready",
		"wait claim data Bound|Lost", "wait claim data 2Gi", "delete things.example.com a", "request DELETE /api/v1/namespaces/default/pods/web as=me", "let crash attacher",
	} {
		f.Add(act)
	}
	f.Fuzz(func(t *testing.T, text string) {
		act, err := scenario.ParseAct(text)
		if err != nil {
			return
		}
		again, err := scenario.ParseAct(act.String())
		if err != nil || again.String() != act.String() {
			t.Fatalf("%q is written as %q, which parses as %q, %v", text, act, again, err)
		}
		s, err := scenario.Parse("fuzz", "user a\n  "+act.String()+"\n")
		if err != nil || len(s.Users[0].Acts) != 1 || s.Users[0].Acts[0].String() != act.String() {
			t.Fatalf("%q in a scenario: %v", act, err)
		}
	})
}

func FuzzScenario(f *testing.F) {
	f.Add(widgetActs)
	f.Add("user a\n  apply\n    kind: Pod\n\tcordon node-1\nschedule\n  3 hold: a/b\n")
	for _, s := range scenario.Book() {
		f.Add(s.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Parse("fuzz", text)
		if err != nil {
			return
		}
		again, err := scenario.Parse("fuzz", s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written as %q, which parses as %q, %v", text, s, again, err)
		}
	})
}
