package reactors

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/testing"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/apitypes"
	"github.com/volsim/volsim/sim"
)

// Tracker returns the server in the shape of client-go's object tracker. It neither records actions
// nor runs reactors, so a reactor may use it.
//
// Add and Create store objects as they are; see [fake.Server.Add]. Update and Patch replace an
// object and its status, whatever its resourceVersion.
//
// Differs: the server's rules apply to Update, Patch, Apply and Delete. An update of the object and
// its status is two writes.
func (c *Clientset) Tracker() testing.ObjectTracker {
	return tracker{client: c.Server().Client(sim.DirectCaller())}
}

// A tracker is an object tracker over a server. The embedded tracker is nil: it stands for methods
// that a later version of client-go adds.
type tracker struct {
	testing.ObjectTracker

	client *fake.Clientset
}

// resource returns the clients of a resource, or an error if the server lacks it.
func (t tracker) resource(gvr schema.GroupVersionResource,
	ns string,
) (fake.ResourceClient, dynamic.ResourceInterface, error) {
	r, ok := t.client.Resource(gvr, ns)
	if !ok {
		return r, nil, apierrors.NewNotFound(gvr.GroupResource(), "")
	}
	untyped := dynamic.ResourceInterface(t.client.Dynamic().Resource(gvr))
	if ns != "" {
		untyped = t.client.Dynamic().Resource(gvr).Namespace(ns)
	}
	return r, untyped, nil
}

// IsWatchListSemanticsUnSupported reports whether informers must list first, as the clientset does.
func (tracker) IsWatchListSemanticsUnSupported() bool { return true }

// Add implements testing.ObjectTracker.
func (t tracker) Add(obj runtime.Object) error { return t.client.Server().Add(obj) }

// Create implements testing.ObjectTracker.
func (t tracker) Create(gvr schema.GroupVersionResource, obj runtime.Object, ns string,
	_ ...metav1.CreateOptions,
) error {
	if _, _, err := t.resource(gvr, ns); err != nil {
		return err
	}
	obj = obj.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	m.SetNamespace(ns)
	return t.client.Server().Add(obj)
}

// Get implements testing.ObjectTracker.
func (t tracker) Get(gvr schema.GroupVersionResource, ns, name string,
	opts ...metav1.GetOptions,
) (runtime.Object, error) {
	r, _, err := t.resource(gvr, ns)
	if err != nil {
		return nil, err
	}
	obj, err := r.Get(context.Background(), name, last(opts))
	if err != nil {
		return nil, err
	}
	return obj.DeepCopyObject(), nil
}

// List implements testing.ObjectTracker.
func (t tracker) List(gvr schema.GroupVersionResource, _ schema.GroupVersionKind, ns string,
	opts ...metav1.ListOptions,
) (runtime.Object, error) {
	r, _, err := t.resource(gvr, ns)
	if err != nil {
		return nil, err
	}
	all, err := r.List(context.Background(), last(opts))
	if err != nil {
		return nil, err
	}
	return r.ListOf(all).DeepCopyObject(), nil
}

// Update implements testing.ObjectTracker.
func (t tracker) Update(gvr schema.GroupVersionResource, obj runtime.Object, ns string,
	opts ...metav1.UpdateOptions,
) error {
	r, client, err := t.resource(gvr, ns)
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	given := &unstructured.Unstructured{Object: fields}
	given.SetGroupVersionKind(r.GroupVersionKind())
	given.SetNamespace(ns)
	ctx := context.Background()
	for _, sub := range [][]string{nil, {"status"}} {
		stored, err := r.Get(ctx, given.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		given.SetResourceVersion(stored.GetResourceVersion())
		_, err = client.Update(ctx, given, last(opts), sub...)
		if err != nil && (sub == nil || !apierrors.IsNotFound(err)) { // not every kind has a status
			return err
		}
	}
	return nil
}

// Patch implements testing.ObjectTracker. The object is the patched one.
func (t tracker) Patch(gvr schema.GroupVersionResource, obj runtime.Object, ns string, _ ...metav1.PatchOptions) error {
	return t.Update(gvr, obj, ns)
}

// Apply implements testing.ObjectTracker.
func (t tracker) Apply(gvr schema.GroupVersionResource, config runtime.Object, ns string,
	opts ...metav1.PatchOptions,
) error {
	r, _, err := t.resource(gvr, ns)
	if err != nil {
		return err
	}
	m, err := meta.Accessor(config)
	if err != nil {
		return err
	}
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	_, err = r.Patch(context.Background(), m.GetName(), types.ApplyPatchType, data, last(opts))
	return err
}

// Delete implements testing.ObjectTracker.
func (t tracker) Delete(gvr schema.GroupVersionResource, ns, name string, opts ...metav1.DeleteOptions) error {
	r, _, err := t.resource(gvr, ns)
	if err != nil {
		return err
	}
	_, err = r.Delete(context.Background(), name, last(opts))
	return err
}

// Watch implements testing.ObjectTracker.
func (t tracker) Watch(gvr schema.GroupVersionResource, ns string,
	opts ...metav1.ListOptions,
) (watch.Interface, error) {
	r, client, err := t.resource(gvr, ns)
	if err != nil {
		return nil, err
	}
	w, err := client.Watch(context.Background(), last(opts))
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if obj, ok := e.Object.(*unstructured.Unstructured); ok {
			e.Object = typed(obj, r.GroupVersionKind())
		}
		return e, true
	}), nil
}

// typed returns an object in its Go type. One of a custom resource stays as it is.
func typed(obj *unstructured.Unstructured, gvk schema.GroupVersionKind) runtime.Object {
	out, err := apitypes.New(gvk)
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, out) != nil {
		return obj
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients
	return out
}

// last returns the given options, or their zero value.
func last[T any](opts []T) T {
	var out T
	for _, o := range opts {
		out = o
	}
	return out
}
