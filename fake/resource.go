package fake

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// What client-go refuses before it asks the server.
var (
	errNoName            = errors.New("resource name may not be empty")
	errNamespaceCreation = errors.New("an empty namespace may not be set during creation")
	errNamespaceName     = errors.New("an empty namespace may not be set when a resource name is provided")
)

// resource is the client of one resource in one namespace: T is its type, L its list's, A that of its configurations
// for server-side apply. Its methods are those of client-go's typed interfaces. Like theirs, they return an empty object
// with an error.
//
// Upstream: k8s.io/client-go/gentype.
type resource[T Object, L runtime.Object, A any] struct{ ResourceClient }

// newResource returns the typed client of a built-in resource, named by its id.
func newResource[T Object, L runtime.Object, A any](c *Clientset, id, namespace string) resource[T, L, A] {
	k := kindsByID[id]
	return resource[T, L, A]{ResourceClient{c: c, kind: k, version: k.gvk.Version, namespace: namespace}}
}

// answer copies what the server answers with for the caller, unless the caller can do with the stored object.
func (r resource[T, L, A]) answer(obj Object, err error) (T, error) {
	if err != nil {
		return r.kind.empty().(T), err
	}
	if r.c.withoutCopies {
		return obj.(T), nil
	}
	return r.kind.copy(obj).(T), nil
}

// addressable tells whether a request for one object can be sent at all.
func (r resource[T, L, A]) addressable(name string) error {
	switch {
	case name == "":
		return errNoName
	case r.kind.namespaced && r.namespace == "":
		return errNamespaceName
	}
	return nil
}

// Create creates an object.
func (r resource[T, L, A]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	if r.kind.namespaced && r.namespace == "" {
		return r.answer(nil, errNamespaceCreation)
	}
	done, err := r.ResourceClient.Create(ctx, r.kind.copy(obj), opts)
	return r.answer(done.Object, err)
}

// Update replaces an object, its status excepted.
func (r resource[T, L, A]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.update(ctx, obj, opts)
}

// UpdateStatus replaces an object's status.
func (r resource[T, L, A]) UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.update(ctx, obj, opts, "status")
}

func (r resource[T, L, A]) update(ctx context.Context, obj T, opts metav1.UpdateOptions, sub ...string) (T, error) {
	name := obj.GetName()
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	done, err := r.ResourceClient.Update(ctx, name, obj, opts, sub...)
	return r.answer(done.Object, err)
}

// Delete deletes an object, or says that it is to go.
func (r resource[T, L, A]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := r.addressable(name); err != nil {
		return err
	}
	_, err := r.ResourceClient.Delete(ctx, name, opts)
	return err
}

// DeleteCollection deletes the objects that are selected, one after the other in order.
func (r resource[T, L, A]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, sel metav1.ListOptions) error {
	_, err := r.ResourceClient.DeleteCollection(ctx, opts, sel)
	return err
}

// Get reads an object.
func (r resource[T, L, A]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	return r.answer(r.ResourceClient.Get(ctx, name, opts))
}

// List lists the objects that are selected, at one revision.
func (r resource[T, L, A]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	all, err := r.ResourceClient.List(ctx, opts)
	if r.c.withoutCopies {
		return r.kind.share(all.ListMeta, all.Objects).(L), err
	}
	return r.kind.list(all.ListMeta, all.Objects).(L), err
}

// Watch tells of the changes of the objects that are selected. It ends with ctx, with its Stop or with its timeout. It
// has a goroutine: under a stepped host it is no way to learn of things in order; a view is.
func (r resource[T, L, A]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.stream(ctx, opts, func(obj Object) (runtime.Object, error) { return r.kind.copy(obj), nil })
}

// Patch changes an object, or its status, by a JSON patch, a merge patch, a strategic merge patch or an apply.
func (r resource[T, L, A]) Patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, subresources ...string,
) (T, error) {
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	done, err := r.ResourceClient.Patch(ctx, name, pt, data, opts, subresources...)
	return r.answer(done.Object, err)
}

// Apply says how an object is to be, as far as the configuration says, and creates it if there is none.
func (r resource[T, L, A]) Apply(ctx context.Context, config A, opts metav1.ApplyOptions) (T, error) {
	return r.apply(ctx, config, opts)
}

// ApplyStatus says how an object's status is to be, as far as the configuration says.
func (r resource[T, L, A]) ApplyStatus(ctx context.Context, config A, opts metav1.ApplyOptions) (T, error) {
	return r.apply(ctx, config, opts, "status")
}

// What client-go refuses to apply before it asks the server.
//
// Upstream: k8s.io/client-go/gentype alsoApplier.
var (
	errNoConfig      = errors.New("object provided to Apply must not be nil")
	errNoConfigName  = errors.New("obj.Name must be provided to Apply")
	errNoScaleConfig = errors.New("scale provided to ApplyScale must not be nil")
)

func (r resource[T, L, A]) apply(ctx context.Context, config A, opts metav1.ApplyOptions, sub ...string) (T, error) {
	named, ok := any(config).(interface{ GetName() *string })
	if v := reflect.ValueOf(config); !ok || v.IsNil() {
		return r.answer(nil, errNoConfig)
	}
	name := named.GetName()
	if name == nil {
		return r.answer(nil, errNoConfigName)
	}
	data, err := json.Marshal(config)
	if err != nil {
		return r.answer(nil, err)
	}
	return r.Patch(ctx, *name, types.ApplyYAMLPatchType, data, opts.ToPatchOptions(), sub...)
}

// get reads a stored object.
func (s *Server) get(k *kind, namespace, name string, opts metav1.GetOptions) (Object, error) {
	asked, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, internalError(err.Error())
	}
	if asked > 0 {
		if is := s.Revision(); asked > is {
			return nil, tooLarge(asked, is)
		}
	}
	obj := s.lookup(s.tableOf(k), key(namespace, name))
	if obj == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), name)
	}
	return obj, nil
}
