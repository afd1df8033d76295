package fake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/volsim/volsim/ctrlruntime/fake"
)

// A Box is a custom object.
type Box struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BoxSpec   `json:"spec,omitempty"`
	Status            BoxStatus `json:"status,omitempty"`
}

// BoxSpec is the desired state of a Box.
type BoxSpec struct {
	Color string `json:"color,omitempty"`
}

// BoxStatus is the actual state of a Box.
type BoxStatus struct {
	Packed bool `json:"packed,omitempty"`
}

// A BoxList is a list of boxes.
type BoxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Box `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (b *Box) DeepCopyObject() runtime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *BoxList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Box))
	}
	return &out
}

var (
	version = schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme  = newScheme()
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(version, &Box{}, &BoxList{})
	metav1.AddToGroupVersion(s, version)
	return s
}

func newBox(name, color string) *Box {
	return &Box{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Spec: BoxSpec{Color: color}}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A builder has the methods that both packages have.
type builder[B any] interface {
	WithScheme(s *runtime.Scheme) B
	WithObjects(objects ...client.Object) B
	WithLists(lists ...client.ObjectList) B
	WithRuntimeObjects(objects ...runtime.Object) B
	WithStatusSubresource(objects ...client.Object) B
	WithIndex(obj runtime.Object, field string, extract client.IndexerFunc) B
	WithInterceptorFuncs(funcs interceptor.Funcs) B
	WithRESTMapper(mapper meta.RESTMapper) B
	WithReturnManagedFields() B
	Build() client.WithWatch
}

var (
	_ builder[*fake.ClientBuilder]     = fake.NewClientBuilder()
	_ builder[*upstream.ClientBuilder] = upstream.NewClientBuilder()
)

// tests are tests as users of controller-runtime's fake client have them. They pass with both
// packages.
func tests[B builder[B]](t *testing.T, newBuilder func() B) {
	ctx := context.Background()
	color := func(o client.Object) []string { return []string{o.(*Box).Spec.Color} }
	t.Run("reconcile", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).WithObjects(newBox("a", "red")).Build()
		box := &Box{}
		must(t, c.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "a"}, box))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "shop"}}
		result, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
			secret.StringData = map[string]string{"x": "y"}
			return controllerutil.SetControllerReference(box, secret, scheme)
		})
		must(t, err)
		controllerutil.AddFinalizer(box, "example.com/keep")
		must(t, c.Update(ctx, box), c.Delete(ctx, box), c.Get(ctx, client.ObjectKeyFromObject(box), box))
		if result != controllerutil.OperationResultCreated || box.DeletionTimestamp == nil || len(secret.OwnerReferences) != 1 {
			t.Errorf("%s, box %v, secret %v", result, box, secret)
		}
		controllerutil.RemoveFinalizer(box, "example.com/keep")
		must(t, c.Update(ctx, box))
		if err := c.Get(ctx, client.ObjectKeyFromObject(box), box); !apierrors.IsNotFound(err) {
			t.Errorf("get after the last finalizer: %v", err)
		}
		if err := c.Delete(ctx, newBox("a", "")); !apierrors.IsNotFound(err) {
			t.Errorf("delete twice: %v", err)
		}
	})
	t.Run("status", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).WithObjects(newBox("a", "red")).WithStatusSubresource(&Box{}).Build()
		box := &Box{}
		must(t, c.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "a"}, box))
		box.Status.Packed, box.Spec.Color = true, "blue"
		must(t, c.Status().Update(ctx, box), c.Get(ctx, client.ObjectKeyFromObject(box), box))
		if !box.Status.Packed || box.Spec.Color != "red" {
			t.Errorf("after an update of the status: %+v", box)
		}
		before := box.DeepCopyObject().(*Box)
		box.Status.Packed, box.Spec.Color = false, "blue"
		must(t, c.Patch(ctx, box, client.MergeFrom(before)), c.Get(ctx, client.ObjectKeyFromObject(box), box))
		if !box.Status.Packed || box.Spec.Color != "blue" {
			t.Errorf("after a patch: %+v", box)
		}
		before = box.DeepCopyObject().(*Box)
		box.Status.Packed = false
		must(t, c.Status().Patch(ctx, box, client.MergeFrom(before)), c.Get(ctx, client.ObjectKeyFromObject(box), box))
		if box.Status.Packed {
			t.Errorf("after a patch of the status: %+v", box)
		}
	})
	t.Run("no status", func(t *testing.T) {
		box := newBox("a", "red")
		box.Status.Packed = true
		c := newBuilder().WithScheme(scheme).WithObjects(box).Build()
		got := &Box{}
		must(t, c.Get(ctx, client.ObjectKeyFromObject(box), got))
		if !got.Status.Packed {
			t.Error("the status was not stored")
		}
		if err := c.Status().Update(ctx, got); !apierrors.IsNotFound(err) {
			t.Errorf("update of the status: %v", err)
		}
	})
	t.Run("conflict", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).WithObjects(newBox("a", "red")).Build()
		first, second := &Box{}, &Box{}
		key := types.NamespacedName{Namespace: "shop", Name: "a"}
		must(t, c.Get(ctx, key, first), c.Get(ctx, key, second))
		first.Spec.Color, second.Spec.Color = "blue", "green"
		must(t, c.Update(ctx, first))
		if err := c.Update(ctx, second); !apierrors.IsConflict(err) {
			t.Errorf("second update: %v", err)
		}
		if err := c.Create(ctx, newBox("a", "")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("create twice: %v", err)
		}
	})
	t.Run("lists and indices", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).WithIndex(&Box{}, "spec.color", color).
			WithLists(&BoxList{Items: []Box{*newBox("a", "red"), *newBox("b", "blue")}}).
			WithRuntimeObjects(newBox("c", "red")).Build()
		var all, red, limited BoxList
		must(t, c.List(ctx, &all), c.List(ctx, &red, client.MatchingFields{"spec.color": "red"}, client.InNamespace("shop")),
			c.List(ctx, &limited, client.InNamespace("other")))
		if len(all.Items) != 3 || len(red.Items) != 2 || red.Items[1].Name != "c" || len(limited.Items) != 0 {
			t.Errorf("all %v, red %v, other %v", all.Items, red.Items, limited.Items)
		}
		if err := c.List(ctx, &red, client.MatchingFields{"spec.size": "1"}); err == nil {
			t.Error("a field without an index was selected")
		}
		must(t, c.DeleteAllOf(ctx, &Box{}, client.InNamespace("shop")), c.List(ctx, &all))
		if len(all.Items) != 0 {
			t.Errorf("after DeleteAllOf: %v", all.Items)
		}
	})
	t.Run("not found", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).Build()
		var all BoxList
		must(t, c.List(ctx, &all), c.DeleteAllOf(ctx, &Box{}))
		if err := c.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "a"}, &Box{}); !apierrors.IsNotFound(err) {
			t.Errorf("get: %v", err)
		}
		if err := c.Update(ctx, newBox("a", "")); !apierrors.IsNotFound(err) {
			t.Errorf("update: %v", err)
		}
		if err := c.Get(ctx, types.NamespacedName{Name: "cluster-scoped"}, &Box{}); !apierrors.IsNotFound(err) {
			t.Errorf("get without a namespace: %v", err)
		}
		must(t, c.Create(ctx, newBox("a", "red")), c.List(ctx, &all))
		if len(all.Items) != 1 {
			t.Errorf("list %v", all.Items)
		}
	})
	t.Run("cluster-scoped", func(t *testing.T) {
		box := newBox("a", "red")
		box.Namespace = ""
		c := newBuilder().WithScheme(scheme).Build()
		must(t, c.Create(ctx, box), c.Get(ctx, types.NamespacedName{Name: "a"}, box), c.Delete(ctx, box))
	})
	t.Run("scope of a RESTMapper", func(t *testing.T) {
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
		mapper.AddSpecific(version.WithKind("Box"), version.WithResource("boxen"), version.WithResource("box"), meta.RESTScopeNamespace)
		c := newBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(newBox("a", "")).Build()
		namespaced, err := c.IsObjectNamespaced(&Box{})
		if !namespaced || err != nil || c.RESTMapper() != meta.RESTMapper(mapper) {
			t.Errorf("namespaced: %v, %v", namespaced, err)
		}
	})
	t.Run("interceptors", func(t *testing.T) {
		failed := errors.New("failed")
		c := newBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if obj.GetName() == "bad" {
					return failed
				}
				return c.Create(ctx, obj, opts...)
			},
		}).Build()
		must(t, c.Create(ctx, newBox("a", "")))
		if err := c.Create(ctx, newBox("bad", "")); !errors.Is(err, failed) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("unstructured and metadata", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).Build()
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "other.example.com", Version: "v2", Kind: "Policy"})
		obj.SetNamespace("shop")
		obj.SetName("p")
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(obj.GroupVersionKind())
		must(t, c.Create(ctx, obj), c.Get(ctx, client.ObjectKeyFromObject(obj), obj), c.Get(ctx, client.ObjectKeyFromObject(obj), metadata))
		if size, _, _ := unstructured.NestedInt64(obj.Object, "spec", "size"); size != 3 || metadata.Name != "p" {
			t.Errorf("object %v, metadata %v", obj, metadata)
		}
	})
	t.Run("apply and managed fields", func(t *testing.T) {
		for _, returned := range []bool{false, true} {
			b := newBuilder().WithScheme(scheme)
			if returned {
				b = b.WithReturnManagedFields()
			}
			c := b.Build()
			config := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "shop"}, Data: map[string]string{"x": "1"},
			}
			must(t, c.Patch(ctx, config, client.Apply, client.FieldOwner("me"))) //nolint:staticcheck // tests use it
			got := &corev1.ConfigMap{}
			must(t, c.Get(ctx, client.ObjectKeyFromObject(config), got))
			if got.Data["x"] != "1" || (len(got.ManagedFields) > 0) != returned {
				t.Errorf("returned: %v; got %v", returned, got)
			}
			content := map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": "c", "namespace": "shop"}, "data": map[string]any{"x": "2"},
			}
			other := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content})
			if err := c.Apply(ctx, other, client.FieldOwner("you")); !apierrors.IsConflict(err) {
				t.Errorf("apply by another manager: %v", err)
			}
			must(t, c.Apply(ctx, other, client.FieldOwner("you"), client.ForceOwnership))
			if again := c.Apply(ctx, other, client.FieldOwner("you")); (again != nil) != returned {
				t.Errorf("returned: %v; applied again: %v", returned, again)
			}
		}
	})
	t.Run("watch", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).Build()
		w, err := c.Watch(ctx, &BoxList{})
		must(t, err)
		defer w.Stop()
		must(t, c.Create(ctx, newBox("a", "red")))
		select {
		case e := <-w.ResultChan():
			if box, ok := e.Object.(*Box); !ok || box.Name != "a" {
				t.Errorf("event %+v", e)
			}
		case <-time.After(time.Minute):
			t.Error("no event")
		}
	})
	t.Run("dry run and generated names", func(t *testing.T) {
		c := newBuilder().WithScheme(scheme).Build()
		box := newBox("a", "")
		must(t, c.Create(ctx, box, client.DryRunAll))
		if err := c.Get(ctx, client.ObjectKeyFromObject(box), box); !apierrors.IsNotFound(err) {
			t.Errorf("get after a dry run: %v", err)
		}
		generated := newBox("", "")
		generated.GenerateName = "box-"
		must(t, c.Create(ctx, generated))
		if !strings.HasPrefix(generated.Name, "box-") || len(generated.Name) != len("box-")+5 {
			t.Errorf("name %q", generated.Name)
		}
	})
	t.Run("what Build refuses", func(t *testing.T) {
		deleted := newBox("a", "")
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		for name, build := range map[string]func(){
			"refusing to create obj": func() { newBuilder().WithScheme(scheme).WithObjects(deleted).Build() },
			"is already indexed": func() {
				newBuilder().WithScheme(scheme).WithIndex(&Box{}, "x", color).WithIndex(&Box{}, "x", color)
			},
			"already exists":                 func() { newBuilder().WithScheme(scheme).WithObjects(newBox("a", ""), newBox("a", "")).Build() },
			"must not be called multiple":    func() { b := newBuilder(); b.Build(); b.Build() },
			"no kind is registered for the ": func() { newBuilder().WithObjects(newBox("a", "")).Build() },
		} {
			func() {
				defer func() {
					if r := recover(); !strings.Contains(fmt.Sprint(r), name) {
						t.Errorf("panic %v, want %q", r, name)
					}
				}()
				build()
			}()
		}
	})
}

func TestUpstreamsTests(t *testing.T) {
	t.Run("upstream", func(t *testing.T) { tests(t, upstream.NewClientBuilder) })
	t.Run("here", func(t *testing.T) { tests(t, fake.NewClientBuilder) })
}
