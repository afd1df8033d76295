package crd_test

import (
	cmp2 "cmp"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
)

// fact is a sequence of requests to a real server with its answers. The files of facts in testdata
// were recorded from a kube-apiserver of Kubernetes 1.36.3.
type fact struct {
	Name     string
	Group    string // that of widgets if empty
	Resource string
	Steps    []step
}

type step struct {
	Do      string // create, update, patch, get, delete
	Version string // v1 if empty
	Name    string // a if empty
	Sub     string
	Type    string // of a patch
	Blind   bool   // an update without the resourceVersion
	Body    json.RawMessage
	Want    map[string]any
}

func readFacts(t *testing.T, file string) []fact {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var facts []fact
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	if len(facts) == 0 {
		t.Fatal("no facts")
	}
	return facts
}

func TestObjectsAreTreatedAsByTheRealServer(t *testing.T) {
	for _, f := range readFacts(t, "testdata/objects.json") {
		t.Run(f.Name, func(t *testing.T) {
			newWorld(t, "testdata/widgets.yaml").replay(f, widgets, "default")
		})
	}
}

// TestSnapshotsAreTreatedAsByTheRealServer tests each rule of the snapshot kinds, and the requests
// of the snapshot controllers.
func TestSnapshotsAreTreatedAsByTheRealServer(t *testing.T) {
	shared := newWorld(t)
	if err := crd.InstallFS(shared.Context(), shared.User, os.DirFS("../../internal/snapshotapi/definitions")); err != nil {
		t.Fatal(err)
	}
	for _, f := range readFacts(t, "testdata/snapshots.json") {
		t.Run(f.Name, func(t *testing.T) {
			of := *shared.World
			of.TB = t
			w := &world{&of}
			r := schema.GroupVersionResource{Group: f.Group, Version: "v1", Resource: f.Resource}
			namespace := ""
			if w.resource(r, "").Describe().Namespaced {
				namespace = "default"
			}
			w.replay(f, r, namespace)
			if w.Server.Count(f.Resource+"."+f.Group) > 0 {
				w.delete(r, namespace, "a")
			}
		})
	}
}

// replay repeats the recorded requests, and compares the answers.
func (w *world) replay(f fact, r schema.GroupVersionResource, namespace string) {
	w.Helper()
	for i, s := range f.Steps {
		if d := cmp.Diff(comparable(w, s, s.Want), comparable(w, s, w.do(r, namespace, s))); d != "" {
			w.Fatalf("step %d, %s (-want +got)\n%s", i, s.Do, d)
		}
	}
}

// TestDefinitionsAreTreatedAsByTheRealServer creates valid and invalid definitions.
func TestDefinitionsAreTreatedAsByTheRealServer(t *testing.T) {
	data, err := os.ReadFile("testdata/definitions.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts []struct {
		Name string
		Body json.RawMessage
		Want map[string]any
	}
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		t.Run(f.Name, func(t *testing.T) {
			w := newWorld(t)
			got := w.define(f.Body)
			if warnings, ok := f.Want["warnings"].([]any); ok {
				// upstream's order is random
				slices.SortFunc(warnings, func(a, b any) int { return cmp2.Compare(a.(string), b.(string)) })
			}
			if d := cmp.Diff(byType(f.Want), byType(got)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// byType sorts the conditions of a definition by type. On the real server their order depends on
// the controllers.
func byType(definition map[string]any) map[string]any {
	if status, ok := definition["status"].(map[string]any); ok {
		slices.SortFunc(status["conditions"].([]any), func(a, b any) int {
			return cmp2.Compare(a.(map[string]any)["type"].(string), b.(map[string]any)["type"].(string))
		})
	}
	return definition
}

// define creates a definition, and returns the outcome.
func (w *world) define(body []byte) map[string]any {
	w.Helper()
	c := w.resource(definitions, "")
	obj := &fake.CustomObject{}
	if err := json.Unmarshal(body, obj); err != nil {
		w.Fatal(err)
	}
	var warnings []any
	for _, path := range c.Describe().Custom.UnknownFields(obj) {
		warnings = append(warnings, `unknown field "`+path+`"`)
	}
	done, err := c.Create(w.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		return answer(w, nil, nil, err)
	}
	got := map[string]any{"code": 201., "generation": float64(done.Object.GetGeneration())}
	for _, msg := range done.Warnings {
		warnings = append(warnings, msg)
	}
	if len(warnings) > 0 {
		got["warnings"] = warnings
	}
	var stored map[string]any
	if err := json.Unmarshal([]byte(text(w, done.Object)), &stored); err != nil {
		w.Fatal(err)
	}
	got["spec"], got["status"] = stored["spec"], stored["status"]
	for _, c := range stored["status"].(map[string]any)["conditions"].([]any) {
		delete(c.(map[string]any), "lastTransitionTime")
	}
	return got
}

// do makes the request of a step, and returns the answer in the form of the file.
func (w *world) do(r schema.GroupVersionResource, namespace string, s step) map[string]any {
	w.Helper()
	if s.Version != "" {
		r.Version = s.Version
	}
	if s.Name == "" {
		s.Name = "a"
	}
	c := w.resource(r, namespace)
	var sub []string
	if s.Sub != "" {
		sub = []string{s.Sub}
	}
	switch s.Do {
	case "create":
		obj, unknown := w.body(c, s)
		done, err := c.Create(w.Context(), obj, metav1.CreateOptions{})
		return answer(w, done.Object, append(unknown, done.Warnings...), err)
	case "update":
		obj, unknown := w.body(c, s)
		if !s.Blind {
			obj.ResourceVersion = w.get(r, namespace, s.Name).ResourceVersion
		}
		done, err := c.Update(w.Context(), s.Name, obj, metav1.UpdateOptions{}, sub...)
		return answer(w, done.Object, append(unknown, done.Warnings...), err)
	case "patch":
		pt := map[string]types.PatchType{
			"merge": types.MergePatchType, "json": types.JSONPatchType, "strategic": types.StrategicMergePatchType,
		}[s.Type]
		done, err := c.Patch(w.Context(), s.Name, pt, s.Body, metav1.PatchOptions{}, sub...)
		return answer(w, done.Object, done.Warnings, err)
	case "delete":
		done, err := c.Delete(w.Context(), s.Name, metav1.DeleteOptions{})
		if err == nil && done.Deleted {
			return map[string]any{"code": 200.}
		}
		return answer(w, done.Object, nil, err)
	default:
		obj, err := c.Get(w.Context(), s.Name, metav1.GetOptions{})
		return answer(w, obj, nil, err)
	}
}

// body decodes a request body, and returns warnings about unknown fields.
func (w *world) body(c fake.ResourceClient, s step) (*fake.CustomObject, []string) {
	w.Helper()
	obj := &fake.CustomObject{}
	if err := json.Unmarshal(s.Body, obj); err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(string(s.Body), `"name": ""`) && obj.Name == "" {
		obj.Name = s.Name
	}
	obj.APIVersion, obj.Kind = c.GroupVersionKind().ToAPIVersionAndKind()
	var warnings []string
	for _, path := range c.Describe().Custom.UnknownFields(obj) {
		warnings = append(warnings, `unknown field "`+path+`"`)
	}
	return obj, warnings
}

// answer returns an answer in the form of the files.
func answer(t testing.TB, obj fake.Object, warnings []string, err error) map[string]any {
	t.Helper()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return map[string]any{"code": float64(s.Code), "reason": string(s.Reason), "message": s.Message}
	}
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(text(t, obj)), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{"apiVersion": all["apiVersion"]}
	meta := all["metadata"].(map[string]any)
	for _, name := range []string{"generation", "labels", "annotations", "finalizers"} {
		if v, ok := meta[name]; ok {
			out[name] = v
		}
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(all, name)
	}
	out["content"] = all
	if len(warnings) > 0 {
		out["warnings"] = warnings
	}
	return out
}

var uidPattern = regexp.MustCompile(`UID in object meta: [^ "]+`)

// comparable removes from an answer what cannot be equal, or does not belong to this package: UIDs,
// and warnings about unknown fields in a patch.
func comparable(t testing.TB, s step, answer map[string]any) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(uidPattern.ReplaceAllString(text(t, answer), "UID in object meta: *")),
		&out); err != nil {
		t.Fatal(err)
	}
	if _, warned := out["warnings"]; warned && s.Do == "patch" && s.Type == "merge" &&
		strings.Contains(string(s.Body), "junk") {
		delete(out, "warnings")
	}
	return out
}
