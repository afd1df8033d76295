package datasourcevalidator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/datasourcevalidator"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// TestWarning has the rows of upstream's TestValidateGroupKind, in one world.
func TestWarning(t *testing.T) {
	w := testworld.New(t, sim.SteppedConfig{})
	testcheck.NoError(t, definitions.InstallText(t.Context(), w.Server, datasourcevalidator.Definition))
	p := w.Host.Process("validator")
	testcheck.NoError(t, datasourcevalidator.New(datasourcevalidator.Config{
		Process: p, Informers: w.Server.Informers(p),
		Recorder: events.New(events.Config{Process: p, Client: w.Server.Client(p), Source: datasourcevalidator.EventSource}),
	}))
	testcheck.Must(w.User.Dynamic().Resource(schema.GroupVersionResource{
		Group: "populator.storage.k8s.io", Version: "v1beta1", Resource: "volumepopulators",
	}).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "populator.storage.k8s.io/v1beta1", "kind": "VolumePopulator", "metadata": map[string]any{"name": "valid"},
		"sourceKind": map[string]any{"group": "valid.storage.k8s.io", "kind": "Valid"},
	}}, metav1.CreateOptions{}))
	for name, source := range map[string]*corev1.TypedObjectReference{
		"none":         nil,
		"claim":        {Kind: "PersistentVolumeClaim", Name: "a"},
		"snapshot":     {APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "a"},
		"registered":   {APIGroup: ptr.To("valid.storage.k8s.io"), Kind: "Valid", Name: "a"},
		"unregistered": {APIGroup: ptr.To("invalid.storage.k8s.io"), Kind: "Invalid", Name: "a"},
	} {
		testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, DataSourceRef: source,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, metav1.CreateOptions{}))
	}
	w.Run()
	obj, _ := w.Server.Get("persistentvolumeclaims", "default", "unregistered")
	changed := obj.(*corev1.PersistentVolumeClaim).DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), changed, metav1.UpdateOptions{}))
	w.Run()
	all := w.Server.List("events")
	if len(all) != 1 {
		t.Fatalf("%d events, want 1: %v", len(all), all)
	}
	e := all[0].(*corev1.Event)
	if e.InvolvedObject.Name != "unregistered" || e.Type != corev1.EventTypeWarning || e.Reason != "UnrecognizedDataSourceKind" || e.Count > 1 ||
		e.Message != "The data source for this PVC does not match any registered VolumePopulator" {
		t.Errorf("got %+v", e)
	}
}

// TestNotServed has no VolumePopulators.
func TestNotServed(t *testing.T) {
	w := testworld.New(t, sim.SteppedConfig{})
	p := w.Host.Process("validator")
	err := datasourcevalidator.New(datasourcevalidator.Config{Process: p, Informers: w.Server.Informers(p)})
	if err == nil {
		t.Error("no error although VolumePopulators are not served")
	}
}
