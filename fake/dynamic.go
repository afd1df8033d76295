package fake

import (
	"context"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const managedMsg = `cannot apply an object with managed fields already set.
		Use the client-go/applyconfigurations "UnstructructuredExtractor" to obtain the unstructured ApplyConfiguration for the given field manager that you can use/modify here to apply`

// Dynamic returns a dynamic client for all resources, including custom ones. It makes its requests
// as c does.
//
// Differs: a request for a resource or subresource that does not exist is not traced.
func (c *Clientset) Dynamic() dynamic.Interface {
	c.mustHaveServer()
	return dynamicClient{c}
}

type dynamicClient struct{ c *Clientset }

// IsWatchListSemanticsUnSupported reports whether informers must list first; see Clientset.
func (d dynamicClient) IsWatchListSemanticsUnSupported() bool {
	return d.c.IsWatchListSemanticsUnSupported()
}

// Resource returns the client of a resource in all namespaces.
func (d dynamicClient) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return dynamicResource{untypedRoute{c: d.c, resource: r}}
}

// dynamicResource is the dynamic client of one resource.
//
// Upstream: k8s.io/client-go/dynamic.
type dynamicResource struct{ untypedRoute }

// Namespace returns the client of the resource in one namespace.
func (d dynamicResource) Namespace(namespace string) dynamic.ResourceInterface {
	d.namespace = namespace
	return d
}

// answer returns the result of a write as an unstructured object.
func (r ResourceClient) answer(done Result, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	return untyped(done.Object, r.GroupVersionKind())
}

// decodeSent decodes a sent object, and retains nothing of it.
func (r ResourceClient) decodeSent(obj *unstructured.Unstructured, validation string) (Object, error) {
	got, want := obj.GroupVersionKind(), r.GroupVersionKind()
	switch {
	case got.Kind == "":
		return nil, runtime.NewMissingKindErr(text(obj))
	case got.GroupVersion() != want.GroupVersion():
		return nil, versionMismatch(got.GroupVersion(), want.GroupVersion())
	case got.Kind != want.Kind:
		return nil, unconvertible(got, want.Kind, errors.New("kind mismatch"))
	}
	return r.kind.typed(obj.DeepCopy(), validation)
}

// text returns the form of an object in an error.
func text(obj *unstructured.Unstructured) string {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Create creates an object, or a subresource that is an action on one.
func (d dynamicResource) Create(ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions,
	sub ...string,
) (*unstructured.Unstructured, error) {
	if len(sub) > 0 {
		return d.act(ctx, obj, opts, sub)
	}
	r, err := d.collection()
	if err != nil {
		return nil, err
	}
	given, err := r.decodeSent(obj, opts.FieldValidation)
	if err != nil {
		return nil, err
	}
	return r.answer(r.Create(ctx, given, opts))
}

func (d dynamicResource) act(ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions,
	sub []string,
) (*unstructured.Unstructured, error) {
	r, sub, err := d.object(obj.GetName(), sub)
	if err != nil {
		return nil, err
	}
	body, err := r.body(sub)
	if err != nil {
		return nil, err
	}
	gvk := r.kind.actions[sub[0]].gvk
	if err := decode(obj.DeepCopy(), body, gvk.Kind, opts.FieldValidation); err != nil {
		return nil, err
	}
	answer, err := r.CreateSubresource(ctx, obj.GetName(), sub[0], body, opts)
	if err != nil {
		return nil, err
	}
	if _, ok := answer.(*metav1.Status); ok {
		gvk = metav1.Unversioned.WithKind("Status")
	}
	return untyped(answer, gvk)
}

// Update replaces an object except its status, or updates a subresource.
func (d dynamicResource) Update(ctx context.Context, obj *unstructured.Unstructured, opts metav1.UpdateOptions,
	sub ...string,
) (*unstructured.Unstructured, error) {
	r, sub, err := d.object(obj.GetName(), sub)
	if err != nil {
		return nil, err
	}
	given, err := r.decodeSent(obj, opts.FieldValidation)
	if err != nil {
		return nil, err
	}
	return r.answer(r.Update(ctx, obj.GetName(), given, opts, sub...))
}

// UpdateStatus replaces an object's status.
func (d dynamicResource) UpdateStatus(ctx context.Context, obj *unstructured.Unstructured,
	opts metav1.UpdateOptions,
) (*unstructured.Unstructured, error) {
	return d.Update(ctx, obj, opts, string(statusSubresource))
}

// Delete deletes an object or begins its deletion. Subresources cannot be deleted.
func (d dynamicResource) Delete(ctx context.Context, name string, opts metav1.DeleteOptions, sub ...string) error {
	return d.delete(ctx, name, opts, sub)
}

func (w untypedRoute) delete(ctx context.Context, name string, opts metav1.DeleteOptions, sub []string) error {
	r, _, err := w.object(name, nil)
	switch {
	case err != nil:
		return err
	case len(sub) > 0:
		return notFound()
	}
	_, err = r.Delete(ctx, name, opts)
	return err
}

// DeleteCollection deletes the selected objects.
func (d dynamicResource) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions,
	sel metav1.ListOptions,
) error {
	return d.deleteCollection(ctx, opts, sel)
}

func (w untypedRoute) deleteCollection(ctx context.Context, opts metav1.DeleteOptions, sel metav1.ListOptions) error {
	r, err := w.collection()
	if err != nil {
		return err
	}
	_, err = r.DeleteCollection(ctx, opts, sel)
	return err
}

// get reads an object, also through a subresource that shows it.
func (w untypedRoute) get(ctx context.Context, name string, opts metav1.GetOptions,
	sub []string,
) (ResourceClient, Object, error) {
	r, sub, err := w.object(name, sub)
	if err == nil {
		err = r.readable(sub)
	}
	if err != nil {
		return r, nil, err
	}
	obj, err := r.Get(ctx, name, opts)
	return r, obj, err
}

// Get reads an object.
func (d dynamicResource) Get(ctx context.Context, name string, opts metav1.GetOptions,
	sub ...string,
) (*unstructured.Unstructured, error) {
	r, obj, err := d.get(ctx, name, opts, sub)
	return r.answer(Result{Object: obj}, err)
}

// List returns the selected objects at one revision.
func (d dynamicResource) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	r, err := d.all()
	if err != nil {
		return nil, err
	}
	all, err := r.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	return r.untypedList(all)
}

// Watch watches the selected objects. See Watch of the typed clients.
func (d dynamicResource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	r, err := d.all()
	if err != nil {
		return nil, err
	}
	gvk := r.GroupVersionKind()
	return r.stream(ctx, opts, func(obj Object) (runtime.Object, error) { return untyped(obj, gvk) })
}

// Patch patches an object or a subresource.
func (d dynamicResource) Patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	r, done, err := d.patch(ctx, name, pt, data, opts, sub)
	return r.answer(done, err)
}

func (w untypedRoute) patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, sub []string,
) (ResourceClient, Result, error) {
	r, sub, err := w.object(name, sub)
	if err != nil {
		return r, Result{}, err
	}
	done, err := r.Patch(ctx, name, pt, data, opts, sub...)
	return r, done, err
}

// Apply is server-side apply.
func (d dynamicResource) Apply(ctx context.Context, name string, obj *unstructured.Unstructured,
	opts metav1.ApplyOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	if len(obj.GetManagedFields()) > 0 {
		return nil, errors.New(managedMsg)
	}
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, err
	}
	return d.Patch(ctx, name, types.ApplyYAMLPatchType, data, opts.ToPatchOptions(), sub...)
}

// ApplyStatus is server-side apply of an object's status.
func (d dynamicResource) ApplyStatus(ctx context.Context, name string, obj *unstructured.Unstructured,
	opts metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	return d.Apply(ctx, name, obj, opts, string(statusSubresource))
}
