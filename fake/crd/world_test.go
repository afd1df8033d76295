package crd_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// outside makes requests at once.
type outside struct{}

func (outside) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }

// Now returns the start of the simulated time.
func (outside) Now() time.Time { return sim.Epoch }

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	widgets    = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"}
	oldWidgets = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1beta1", Resource: "widgets"}
)

// world is a server that serves definitions, and a client of it.
type world struct {
	t      *testing.T
	ctx    context.Context
	server *fake.Server
	client *fake.Clientset
}

func newWorld(t *testing.T, files ...string) *world {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := fake.NewServer(fake.Config{Now: func() time.Time { return now }})
	crd.Serve(s)
	w := &world{t: t, ctx: t.Context(), server: s, client: s.Client(outside{})}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		w.create(definitions, "", string(data))
	}
	return w
}

func (w *world) resource(r schema.GroupVersionResource, namespace string) fake.ResourceClient {
	w.t.Helper()
	c, ok := w.client.Resource(r, namespace)
	if !ok {
		w.t.Fatalf("%v is not served", r)
	}
	return c
}

// object decodes YAML.
func object(t *testing.T, text string) *fake.CustomObject {
	t.Helper()
	obj := &fake.CustomObject{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func (w *world) try(r schema.GroupVersionResource, namespace, text string) (*fake.CustomObject, error) {
	w.t.Helper()
	done, err := w.resource(r, namespace).Create(w.ctx, object(w.t, text), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return done.Object.(*fake.CustomObject), nil
}

func (w *world) create(r schema.GroupVersionResource, namespace, text string) *fake.CustomObject {
	w.t.Helper()
	obj, err := w.try(r, namespace, text)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

func (w *world) get(r schema.GroupVersionResource, namespace, name string) *fake.CustomObject {
	w.t.Helper()
	obj, err := w.resource(r, namespace).Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return obj.(*fake.CustomObject)
}

func (w *world) patch(
	r schema.GroupVersionResource, namespace, name, patch string, sub ...string,
) (*fake.CustomObject, error) {
	w.t.Helper()
	pt := types.MergePatchType
	if strings.HasPrefix(patch, "[") {
		pt = types.JSONPatchType
	}
	done, err := w.resource(r, namespace).Patch(w.ctx, name, pt, []byte(patch), metav1.PatchOptions{}, sub...)
	if err != nil {
		return nil, err
	}
	return done.Object.(*fake.CustomObject), nil
}

func (w *world) mustPatch(
	r schema.GroupVersionResource, namespace, name, patch string, sub ...string,
) *fake.CustomObject {
	w.t.Helper()
	obj, err := w.patch(r, namespace, name, patch, sub...)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

func (w *world) delete(r schema.GroupVersionResource, namespace, name string) fake.Result {
	w.t.Helper()
	done, err := w.resource(r, namespace).Delete(w.ctx, name, metav1.DeleteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// text returns a value as JSON.
func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func expect(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func expectError(t *testing.T, want string, err error) {
	t.Helper()
	got := "no error"
	if err != nil {
		got = err.Error()
	}
	expect(t, want, got)
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
