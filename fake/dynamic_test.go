package fake_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata/metadatainformer"

	"github.com/volsim/volsim/fake"
)

var (
	claimsGVR  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	widgetsGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// widgets is a custom resource.
var widgets = fake.CustomKind{
	Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Kind: "Widget", ListKind: "WidgetList",
	Namespaced: true, Status: true,
}

func newWidget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": int64(1), "parts": []any{"a", 1.5, true}},
	}}
}

func newSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
			},
		},
	}
}

func formatRV(s *fake.Server) string { return strconv.FormatInt(s.Revision(), 10) }

// untyped returns a typed object as an unstructured one.
func untyped(t *testing.T, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := clientscheme.Scheme.Convert(obj, u, nil); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestDynamicAndTypedAgree(t *testing.T) {
	_, c := newServer(t)
	ctx := context.Background()
	claims := c.Dynamic().Resource(claimsGVR).Namespace("default")
	created, err := claims.Create(ctx, untyped(t, newClaim("x")), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	typed, err := c.CoreV1().PersistentVolumeClaims("default").Get(ctx, "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := untyped(t, typed)
	for name, read := range map[string]func() (*unstructured.Unstructured, error){
		"create": func() (*unstructured.Unstructured, error) { return created, nil },
		"get":    func() (*unstructured.Unstructured, error) { return claims.Get(ctx, "x", metav1.GetOptions{}) },
		"status": func() (*unstructured.Unstructured, error) { return claims.Get(ctx, "x", metav1.GetOptions{}, "status") },
		"list": func() (*unstructured.Unstructured, error) {
			list, err := claims.List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			if got, want := list.GetKind()+" "+list.GetResourceVersion(), "PersistentVolumeClaimList "+typed.ResourceVersion; got != want {
				t.Errorf("list is %s, want %s", got, want)
			}
			return &list.Items[0], nil
		},
		"no-op patch": func() (*unstructured.Unstructured, error) {
			return claims.Patch(ctx, "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		},
	} {
		got, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestDynamicCustomResource(t *testing.T) {
	s, c := newServer(t)
	s.Install(widgets)
	ctx := context.Background()
	all := c.Dynamic().Resource(widgetsGVR).Namespace("default")
	given := newWidget("w")
	obj, err := all.Create(ctx, given, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newWidget("w").Object, given.Object); diff != "" {
		t.Errorf("argument changed (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(newWidget("w").Object["spec"], obj.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got)\n%s", diff)
	}
	if err := unstructured.SetNestedField(obj.Object, "fine", "status", "state"); err != nil {
		t.Fatal(err)
	}
	if obj, err = all.UpdateStatus(ctx, obj, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(obj.Object, int64(2), "spec", "size"); err != nil {
		t.Fatal(err)
	}
	if obj, err = all.Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	state, _, _ := unstructured.NestedString(obj.Object, "status", "state")
	if state != "fine" || obj.GetGeneration() != 2 {
		t.Errorf("state %q, generation %d, want fine and 2", state, obj.GetGeneration())
	}
	obj.Object["spec"] = "spoilt"
	stored, err := all.Get(ctx, "w", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(stored.Object, "spec", "size"); size != 2 {
		t.Errorf("size %d, want 2", size)
	}
	if err := all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Get(ctx, "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestDynamicSubresources(t *testing.T) {
	s, c := newServer(t)
	ctx := context.Background()
	if err := s.Add(newPod("p", func(p *corev1.Pod) { p.Namespace = "default" }), untyped(t, newSet("s"))); err != nil {
		t.Fatal(err)
	}
	pods := c.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	answer, err := pods.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": "p"}, "target": map[string]any{"name": "n"},
	}}, metav1.CreateOptions{}, "binding")
	if err != nil || answer.GetKind() != "Status" {
		t.Fatalf("got %v, %v, want a Status", answer, err)
	}
	pod, err := pods.Get(ctx, "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName"); node != "n" {
		t.Errorf("node %q, want n", node)
	}

	sets := c.Dynamic().Resource(schema.GroupVersionResource{
		Group: "apps", Version: "v1",
		Resource: "statefulsets",
	}).Namespace("default")
	scale, err := sets.Patch(ctx, "s", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{},
		"scale")
	if err != nil {
		t.Fatal(err)
	}
	n, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if scale.GetKind() != "Scale" || n != 3 {
		t.Errorf("got %v, want a Scale of 3", scale)
	}
}

func TestDynamicErrors(t *testing.T) {
	s, c := newServer(t)
	s.Install(widgets)
	ctx := context.Background()
	claims := c.Dynamic().Resource(claimsGVR)
	unknown := c.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("unknowns"))
	create := func(in string, change func(u *unstructured.Unstructured), opts metav1.CreateOptions) error {
		u := untyped(t, newClaim("x"))
		change(u)
		_, err := claims.Namespace(in).Create(ctx, u, opts)
		return err
	}
	const gone = "the server could not find the requested resource"
	tests := []struct {
		name string
		do   func() error
		code int32
		want string
	}{
		{"unknown list", func() error { _, err := unknown.List(ctx, metav1.ListOptions{}); return err }, 404, gone},
		{"unknown watch", func() error { _, err := unknown.Watch(ctx, metav1.ListOptions{}); return err }, 404, gone},
		{"unknown get", func() error { _, err := unknown.Get(ctx, "x", metav1.GetOptions{}); return err }, 404, gone},
		{"unknown delete", func() error { return unknown.Delete(ctx, "x", metav1.DeleteOptions{}) }, 404, gone},
		{"no namespace", func() error { _, err := claims.Get(ctx, "x", metav1.GetOptions{}); return err }, 404, gone},
		{"subresource", func() error {
			_, err := claims.Namespace("default").Get(ctx, "x", metav1.GetOptions{}, "scale")
			return err
		}, 404, gone},
		{
			"create without namespace",
			func() error { return create("", func(*unstructured.Unstructured) {}, metav1.CreateOptions{}) },
			405, "the server does not allow this method on the requested resource",
		},
		{
			"version", func() error {
				return create("default", func(u *unstructured.Unstructured) { u.SetAPIVersion("v2") }, metav1.CreateOptions{})
			},
			400, "the API version in the data (v2) does not match the expected API version (v1)",
		},
		{
			"unknown field", func() error {
				return create("default", func(u *unstructured.Unstructured) { u.Object["dataa"] = "" },
					metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			},
			400, `PersistentVolumeClaim in version "v1" cannot be handled as a PersistentVolumeClaim: strict decoding error: unknown field "dataa"`,
		},
		{"no name", func() error {
			_, err := claims.Namespace("default").Get(ctx, "", metav1.GetOptions{})
			return err
		}, 0, "name is required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			if err == nil {
				t.Fatal("no error")
			}
			var code int32
			if status, ok := err.(apierrors.APIStatus); ok {
				code = status.Status().Code
			}
			if code != tt.code || err.Error() != tt.want {
				t.Errorf("got %d %s\nwant %d %s", code, err, tt.code, tt.want)
			}
		})
	}
}

func TestInformersOfUntypedClientsSync(t *testing.T) {
	s, c := newServer(t)
	s.Install(widgets)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.Dynamic().Resource(widgetsGVR).Namespace("default").Create(ctx, newWidget("w"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	byMap := dynamicinformer.NewDynamicSharedInformerFactory(c.Dynamic(), 0)
	byMeta := metadatainformer.NewSharedInformerFactory(c.Metadata(), 0)
	byMap.ForResource(widgetsGVR).Informer()
	byMap.ForResource(claimsGVR).Informer()
	byMeta.ForResource(widgetsGVR).Informer()
	byMap.Start(ctx.Done())
	byMeta.Start(ctx.Done())
	for r, ok := range byMap.WaitForCacheSync(ctx.Done()) {
		if !ok {
			t.Errorf("dynamic informer of %s did not sync", r)
		}
	}
	for r, ok := range byMeta.WaitForCacheSync(ctx.Done()) {
		if !ok {
			t.Errorf("metadata informer of %s did not sync", r)
		}
	}
	if _, err := byMap.ForResource(widgetsGVR).Lister().ByNamespace("default").Get("w"); err != nil {
		t.Error(err)
	}
	if _, err := byMeta.ForResource(widgetsGVR).Lister().ByNamespace("default").Get("w"); err != nil {
		t.Error(err)
	}
	cancel()
	byMap.Shutdown()
	byMeta.Shutdown()
}

func TestMetadataClient(t *testing.T) {
	s, c := newServer(t)
	ctx := context.Background()
	if err := s.Add(newClaim("x"), newClaim("y")); err != nil {
		t.Fatal(err)
	}
	claims := c.Metadata().Resource(claimsGVR).Namespace("default")
	w, err := claims.Watch(ctx, metav1.ListOptions{ResourceVersion: formatRV(s)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	patched, err := claims.Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := claims.Get(ctx, "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(patched, got); diff != "" {
		t.Errorf("get after patch (-patched +got)\n%s", diff)
	}
	if diff := cmp.Diff(watch.Event{Type: watch.Modified, Object: got}, <-w.ResultChan()); diff != "" {
		t.Errorf("event (-want +got)\n%s", diff)
	}
	want := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	if diff := cmp.Diff(want, got.TypeMeta); diff != "" || got.Labels["a"] != "b" {
		t.Errorf("%+v (-want +got)\n%s", got.Labels, diff)
	}
	list, err := claims.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "x" {
		t.Errorf("got %v, %v, want x", list, err)
	}
	if err := claims.Delete(ctx, "y", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get("persistentvolumeclaims", "default", "y"); ok {
		t.Error("y still exists")
	}
}
