package fake_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// An informer of a custom resource has unstructured objects, delivers as any other, and is shared.
func TestInformersOfCustomResourcesAreUnstructured(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	s := fake.NewServer(fake.Config{Now: host.Now})
	s.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v2", "v1"}, Resource: "things", Kind: "Thing", Namespaced: true,
	})
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	c := host.Process("c")
	informer, err := s.Informers(c).ForResource(things)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Informers(c).ForResource(things); err != nil || again.Informer() != informer.Informer() {
		t.Errorf("second informer for the same resource, error %v", err)
	}
	if _, err := s.Informers(c).ForResource(things.GroupResource().WithVersion("v2")); err == nil {
		t.Error("informers in two versions")
	}
	h := &hearing{}
	if _, err := informer.Informer().AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	client := s.Client(sim.DirectCaller()).Dynamic().Resource(things).Namespace("default")
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"n": int64(1)},
	}}
	if _, err := client.Create(t.Context(), thing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := informer.Lister().ByNamespace("default").Get("a"); err == nil || s.PendingEvents(c, "things.example.com") != 1 {
		t.Errorf("pending events %d, lister error %v", s.PendingEvents(c, "things.example.com"), err)
	}
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	got, err := informer.Lister().ByNamespace("default").Get("a")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := client.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
	if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"add a initial=false", "delete a"}, h.take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"things.example.com"}, s.CachedResources(c)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
