package fake_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/volsim/volsim/ctrlruntime/fake"
	_ "github.com/volsim/volsim/fake/crd"
)

// differences returns the result of each row of the table in the documentation of the package. A row is
// one call or two; errors are results, too.
func differences() map[string]func(c client.WithWatch) string {
	ctx := context.Background()
	meta1 := metav1.ObjectMeta{Name: "a", Namespace: "shop"}
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: meta1, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	claim := func() *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta1, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}}
	}
	result := func(err error) string {
		if err == nil {
			return "stored"
		}
		return fmt.Sprint("refused ", apierrors.ReasonForError(err))
	}
	return map[string]func(c client.WithWatch) string{
		"an invalid object of a built-in kind": func(c client.WithWatch) string {
			return result(c.Create(ctx, &corev1.Pod{ObjectMeta: meta1}))
		},
		"defaults, such as a pod's restartPolicy": func(c client.WithWatch) string {
			p := pod()
			_ = c.Create(ctx, p)
			return fmt.Sprintf("%q", p.Spec.RestartPolicy)
		},
		"a new object's UID and creationTimestamp": func(c client.WithWatch) string {
			p := pod()
			_ = c.Create(ctx, p)
			return fmt.Sprint("set: ", p.UID != "", " ", !p.CreationTimestamp.IsZero())
		},
		"an update that changes the spec": func(c client.WithWatch) string {
			labels := map[string]string{"x": "y"}
			d := &appsv1.Deployment{ObjectMeta: meta1, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod().Spec},
			}}
			_ = c.Create(ctx, d)
			before := d.Generation
			d.Spec.Paused = true
			_ = c.Update(ctx, d)
			return fmt.Sprint("generation +", d.Generation-before)
		},
		"an update that changes nothing": func(c client.WithWatch) string {
			box := newBox("a", "")
			_ = c.Create(ctx, box)
			before := box.ResourceVersion
			_ = c.Update(ctx, box)
			return fmt.Sprint("same resourceVersion: ", box.ResourceVersion == before)
		},
		"an update of an immutable field": func(c client.WithWatch) string {
			claim := claim()
			_ = c.Create(ctx, claim)
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			return result(c.Update(ctx, claim))
		},
		"an object without its namespace": func(c client.WithWatch) string {
			return strings.Fields(result(c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})))[0]
		},
		"the namespaces of a new client": func(c client.WithWatch) string {
			var all corev1.NamespaceList
			_ = c.List(ctx, &all)
			return fmt.Sprint(len(all.Items))
		},
		"the namespace of a new object": func(c client.WithWatch) string {
			_ = c.Create(ctx, newBox("a", ""))
			err := c.Get(ctx, client.ObjectKey{Name: "shop"}, &corev1.Namespace{})
			return fmt.Sprint("exists: ", err == nil)
		},
		"a deleted namespace": func(c client.WithWatch) string {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			_ = c.Create(ctx, ns)
			_ = c.Delete(ctx, ns)
			_ = c.Get(ctx, client.ObjectKeyFromObject(ns), ns)
			return fmt.Sprint("terminating: ", ns.Status.Phase == corev1.NamespaceTerminating)
		},
		"a list": func(c client.WithWatch) string {
			_ = c.Create(ctx, newBox("a", ""))
			var all BoxList
			_ = c.List(ctx, &all)
			return fmt.Sprint("resourceVersion of the last write: ", len(all.Items) == 1 && all.ResourceVersion == all.Items[0].ResourceVersion)
		},
		"a selector of metadata.name without an index": func(c client.WithWatch) string {
			_ = c.Create(ctx, newBox("a", ""))
			_ = c.Create(ctx, newBox("b", ""))
			var all BoxList
			err := c.List(ctx, &all, client.MatchingFields{"metadata.name": "b"})
			return fmt.Sprint(len(all.Items), " ", err == nil)
		},
		"the RESTMapper": func(c client.WithWatch) string {
			_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Kind: "Pod"})
			return fmt.Sprint("knows pods: ", err == nil, meta.IsNoMatchError(err))
		},
	}
}

// Each row of the table in the documentation of the package is a difference.
func TestDifferences(t *testing.T) {
	want := map[string][2]string{ // upstream, here
		"an invalid object of a built-in kind":         {"stored", "refused Invalid"},
		"defaults, such as a pod's restartPolicy":      {`""`, `"Always"`},
		"a new object's UID and creationTimestamp":     {"set: false false", "set: true true"},
		"an update that changes the spec":              {"generation +0", "generation +1"},
		"an update that changes nothing":               {"same resourceVersion: false", "same resourceVersion: true"},
		"an update of an immutable field":              {"stored", "refused Invalid"},
		"an object without its namespace":              {"stored", "refused"},
		"the namespaces of a new client":               {"0", "4"},
		"the namespace of a new object":                {"exists: false", "exists: true"},
		"a deleted namespace":                          {"terminating: false", "terminating: true"},
		"a list":                                       {"resourceVersion of the last write: false", "resourceVersion of the last write: true"},
		"a selector of metadata.name without an index": {"0 false", "1 true"},
		"the RESTMapper":                               {"knows pods: false true", "knows pods: true false"},
	}
	doc, err := os.ReadFile("doc.go")
	must(t, err)
	rows := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.TrimPrefix(line, "//"), " | ")
		row := strings.TrimSpace(cells[0])
		if len(cells) != 3 || row == "what" || row == "WithObjectTracker" { // TestObjectTracker
			continue
		}
		rows++
		check := differences()[row]
		if check == nil {
			t.Errorf("row %q has no test", row)
			continue
		}
		for i, c := range []client.WithWatch{
			upstream.NewClientBuilder().WithScheme(scheme).Build(), fake.NewClientBuilder().WithScheme(scheme).Build(),
		} {
			if got := check(c); got != want[row][i] {
				t.Errorf("%s: client %d: %s, want %s", row, i, got, want[row][i])
			}
		}
	}
	if rows != len(want) {
		t.Errorf("%d rows, want %d", rows, len(want))
	}
}

func TestObjectTracker(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "WithObjectTracker: the objects are in an API server, which has no tracker: use WithObjects") {
			t.Errorf("panic %s", r)
		}
	}()
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	fake.NewClientBuilder().WithObjectTracker(tracker).Build()
}

func TestAddIndex(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(newBox("a", "red"), newBox("b", "blue")).Build()
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	must(t, fake.AddIndex(c, &Box{}, "name", byName))
	var all BoxList
	must(t, c.List(t.Context(), &all, client.MatchingFields{"name": "b"}))
	if len(all.Items) != 1 || all.Items[0].Name != "b" {
		t.Errorf("list %v", all.Items)
	}
	if err := fake.AddIndex(c, &Box{}, "name", byName); err == nil || err.Error() != "index name already exists" {
		t.Errorf("error %v", err)
	}
	if err := c.List(t.Context(), &all, client.MatchingFields{"name": "b", "size": "1"}); err == nil ||
		!strings.Contains(err.Error(), "no index with name size has been registered") {
		t.Errorf("error %v", err)
	}
}

// Definitions by path have schemas, defaults and subresources.
func TestDefinitionsByPath(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "boxes.yaml"), []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boxes, kind: Box}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, default: {}, properties: {color: {type: string, default: red, enum: [red, blue]}}},
      status: {type: object, properties: {packed: {type: boolean}}}}}}
`), 0o600))
	c := fake.NewClientBuilder().WithScheme(scheme).WithCRDDirectoryPaths(dir).Build()
	box := newBox("a", "")
	must(t, c.Create(t.Context(), box))
	if box.Spec.Color != "red" || box.Generation != 1 {
		t.Errorf("box %+v", box)
	}
	if err := c.Create(t.Context(), newBox("b", "green")); !apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
	box.Status.Packed = true
	must(t, c.Update(t.Context(), box))
	if box.Status.Packed {
		t.Error("an update of the object changed the status")
	}
}
