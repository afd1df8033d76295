package remote_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// metadataRecorder records what a watcher delivers about config maps named in tests, and about
// things.
type metadataRecorder struct {
	*remote.MetadataWatcher
	process *sim.Process

	mu      sync.Mutex
	changes []string // guarded by mu
}

func (s *metadataRecorder) matches(kind schema.GroupVersionKind, old, obj metav1.Object) bool {
	for _, version := range []metav1.Object{old, obj} {
		if version != nil && version.GetLabels()["mine"] == "" {
			return false
		}
	}
	return kind.Kind == "ConfigMap" || kind.Kind == "Thing"
}

func (s *metadataRecorder) observe(kind schema.GroupVersionKind, old, obj metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := kind.Kind
	switch {
	case old == nil && obj == nil:
		change += " is served"
	case obj == nil:
		change += " " + old.GetName() + " deleted"
	case old == nil:
		change += " " + obj.GetName() + " added"
	default:
		change += " " + obj.GetName() + " changed"
	}
	s.changes = append(s.changes, change)
}

func (s *metadataRecorder) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

func (w *world) watchMetadata() *metadataRecorder {
	w.Helper()
	c, conn := w.connect("metadataRecorder")
	watcher, err := conn.MetadataWatcher(schema.GroupResource{Resource: "events"})
	w.NoError(err)
	s := &metadataRecorder{MetadataWatcher: watcher, process: c}
	s.Follow(s.matches, s.observe)
	w.Host.Start()
	w.Until("the lists", s.HasSynced)
	return s
}

func (w *world) makeMine(name string) *corev1.ConfigMap {
	w.Helper()
	return testcheck.Must(w.User.CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"mine": "yes"}},
	}, metav1.CreateOptions{}))
}

// expect waits until a watcher has delivered as many changes as wanted, and compares them.
func (w *world) expect(s *metadataRecorder, want ...string) {
	w.Helper()
	w.Until(fmt.Sprint(want), func() bool { return len(s.all()) >= len(want) })
	if diff := cmp.Diff(want, s.all()); diff != "" {
		w.Errorf("changes (-want +got)\n%s", diff)
	}
}

// A watcher delivers existing objects and their changes, and finds objects and kinds.
func TestWatcherDeliversMatchingChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.makeMine("early")
	w.makeMap("other", "1")
	s := w.watchMetadata()
	late := w.makeMine("late")
	w.changeMap("late", "2")
	w.deleteMap("early")
	w.expect(s, "ConfigMap early added", "ConfigMap late added", "ConfigMap late changed", "ConfigMap early deleted")
	asked := make(chan []any)
	s.process.Spawn("asks", func(context.Context) {
		kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		r, namespaced, ok := s.Mapping(kind)
		_, _, unknown := s.Mapping(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
		byName, byUID := s.Seen(kind, "default", "late", late.UID), s.Seen(kind, "default", "elsewhere", late.UID)
		asked <- []any{
			r.Resource, namespaced, ok, unknown, byName.GetName(), byUID.GetName(),
			s.Seen(kind, "default", "late", "another") == nil,
		}
	})
	if diff := cmp.Diff([]any{"configmaps", true, true, false, "late", "late", true}, <-asked); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An object that was recreated while the watch was cut is delivered as a deletion and an addition.
func TestWatcherDetectsARecreation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{HistoryEvents: 4})
	g := w.gate()
	w.makeMine("again")
	w.makeMine("goes")
	s := w.watchMetadata()
	w.expect(s, "ConfigMap again added", "ConfigMap goes added")
	g.close()
	w.deleteMap("goes")
	w.deleteMap("again")
	w.makeMine("again")
	w.makeMap("other", "1")
	for i := range 20 {
		w.changeMap("other", fmt.Sprint(i+2))
	}
	g.open()
	w.expect(s, "ConfigMap again added", "ConfigMap goes added", "ConfigMap again deleted", "ConfigMap goes deleted",
		"ConfigMap again added")
}

// A custom resource is watched once it is served.
func TestWatcherDiscoversNewResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	crd.Serve(w.Server)
	s := w.watchMetadata()
	dynamic := w.Server.Client(sim.DirectCaller()).Dynamic()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	testcheck.Must(dynamic.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}).
		Create(t.Context(), definition, metav1.CreateOptions{}))
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{
			"name": "a", "labels": map[string]any{"mine": "yes"},
		},
	}}
	testcheck.Must(dynamic.Resource(schema.GroupVersionResource{
		Group: "example.com", Version: "v1", Resource: "things",
	}).Namespace("default").
		Create(t.Context(), thing, metav1.CreateOptions{}))
	w.expect(s, "Thing is served", "Thing a added")
}
