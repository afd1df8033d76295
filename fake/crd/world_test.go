package crd_test

import (
	"encoding/json"
	"net/http"
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
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	widgets    = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"}
	oldWidgets = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1beta1", Resource: "widgets"}
)

// world is a server that serves definitions, and a client of it.
type world struct {
	*testworld.World
}

func newWorld(t *testing.T, files ...string) *world {
	t.Helper()
	w := newWorldWith(t, nil)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		w.create(definitions, "", string(data))
	}
	return w
}

// newWorldWith returns a world whose definitions may have the given webhooks.
func newWorldWith(t *testing.T, services map[types.NamespacedName]http.Handler) *world {
	t.Helper()
	w := &world{testworld.NewWith(t, sim.SteppedConfig{}, fake.Config{Services: services})}
	w.ActImmediately()
	w.Host.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	crd.Serve(w.Server)
	return w
}

func (w *world) resource(r schema.GroupVersionResource, namespace string) fake.ResourceClient {
	w.Helper()
	c, ok := w.User.Resource(r, namespace)
	if !ok {
		w.Fatalf("%v is not served", r)
	}
	return c
}

// object decodes YAML.
func object(t testing.TB, text string) *fake.CustomObject {
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
	w.Helper()
	done, err := w.resource(r, namespace).Create(w.Context(), object(w, text), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return done.Object.(*fake.CustomObject), nil
}

func (w *world) create(r schema.GroupVersionResource, namespace, text string) *fake.CustomObject {
	w.Helper()
	return testcheck.Must(w.try(r, namespace, text))
}

func (w *world) get(r schema.GroupVersionResource, namespace, name string) *fake.CustomObject {
	w.Helper()
	return testcheck.Must(w.resource(r, namespace).Get(w.Context(), name, metav1.GetOptions{})).(*fake.CustomObject)
}

func (w *world) patch(
	r schema.GroupVersionResource, namespace, name, patch string, sub ...string,
) (*fake.CustomObject, error) {
	w.Helper()
	pt := types.MergePatchType
	if strings.HasPrefix(patch, "[") {
		pt = types.JSONPatchType
	}
	done, err := w.resource(r, namespace).Patch(w.Context(), name, pt, []byte(patch), metav1.PatchOptions{}, sub...)
	if err != nil {
		return nil, err
	}
	return done.Object.(*fake.CustomObject), nil
}

func (w *world) delete(r schema.GroupVersionResource, namespace, name string) fake.Result {
	w.Helper()
	return testcheck.Must(w.resource(r, namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// text returns a value as JSON.
func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func expect(t testing.TB, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func expectError(t testing.TB, want string, err error) {
	t.Helper()
	got := "no error"
	if err != nil {
		got = err.Error()
	}
	expect(t, want, got)
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
