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

// Errors of client-go before it sends a request.
var (
	errNoName            = errors.New("resource name may not be empty")
	errNamespaceCreation = errors.New("an empty namespace may not be set during creation")
	errNamespaceName     = errors.New("an empty namespace may not be set when a resource name is provided")
)

// resource is the typed client of one resource in one namespace. T is the object's type, L the
// list's, and A the apply configuration's. The methods are those of client-go's typed interfaces.
// Like theirs, they return an empty object with an error.
//
// Upstream: k8s.io/client-go/gentype.
type resource[T Object, L runtime.Object, A any] struct{ ResourceClient }

// newResource returns the typed client of a built-in resource, by its id.
func newResource[T Object, L runtime.Object, A any](c *Clientset, id, namespace string) resource[T, L, A] {
	k := kindsByID[id]
	return resource[T, L, A]{ResourceClient{c: c, kind: k, version: k.gvk.Version, namespace: namespace}}
}

// answer copies the server's object for the caller, unless the client is one WithoutCopies.
func (r resource[T, L, A]) answer(obj Object, err error) (T, error) {
	if err != nil {
		return r.kind.empty().(T), err
	}
	if r.c.withoutCopies {
		return obj.(T), nil
	}
	return r.kind.copy(obj).(T), nil
}

// addressable returns an error if a request for one object cannot be sent.
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

// Update replaces an object except its status.
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

// Delete deletes an object or begins its deletion.
func (r resource[T, L, A]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := r.addressable(name); err != nil {
		return err
	}
	_, err := r.ResourceClient.Delete(ctx, name, opts)
	return err
}

// DeleteCollection deletes the selected objects one by one, in order.
func (r resource[T, L, A]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions,
	sel metav1.ListOptions,
) error {
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

// List returns the selected objects at one revision.
func (r resource[T, L, A]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	all, err := r.ResourceClient.List(ctx, opts)
	if r.c.withoutCopies {
		return r.kind.share(all.ListMeta, all.Objects).(L), err
	}
	return r.kind.list(all.ListMeta, all.Objects).(L), err
}

// Watch watches the selected objects until ctx ends, Stop is called or the timeout expires. It uses
// a goroutine, so under a stepped host the order of its events is not deterministic; use an
// informer.
func (r resource[T, L, A]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.stream(ctx, opts, func(obj Object) (runtime.Object, error) { return r.kind.copy(obj), nil })
}

// Patch applies a JSON patch, a merge patch, a strategic merge patch or an apply configuration to
// an object or its status.
func (r resource[T, L, A]) Patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, subresources ...string,
) (T, error) {
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	done, err := r.ResourceClient.Patch(ctx, name, pt, data, opts, subresources...)
	return r.answer(done.Object, err)
}

// Apply applies a configuration to an object, and creates the object if it does not exist.
func (r resource[T, L, A]) Apply(ctx context.Context, config A, opts metav1.ApplyOptions) (T, error) {
	return r.apply(ctx, config, opts)
}

// ApplyStatus applies a configuration to an object's status.
func (r resource[T, L, A]) ApplyStatus(ctx context.Context, config A, opts metav1.ApplyOptions) (T, error) {
	return r.apply(ctx, config, opts, "status")
}

// Errors of client-go before it sends an apply.
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
	requested, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, internalError(err.Error())
	}
	if requested > 0 {
		if current := s.Revision(); requested > current {
			return nil, tooLarge(requested, current)
		}
	}
	obj := s.lookup(s.tableOf(k), key(namespace, name))
	if obj == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), name)
	}
	return obj, nil
}
