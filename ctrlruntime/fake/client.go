package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

// A fakeClient is a client of a fake.Server.
type fakeClient struct {
	client.WithWatch // of the kinds at the beginning; for methods without a request
	kinds            *kinds
	config           *rest.Config
	managedFields    bool

	mu      sync.Mutex
	latest  client.WithWatch // guarded by mu: for the kinds of mapping
	mapping int              // guarded by mu: number of the mapper of latest
	indices []index          // guarded by mu
}

var _ client.WithWatch = (*fakeClient)(nil)

func newFakeClient(k *kinds, caller sim.Caller, managedFields bool, indices []index) (*fakeClient, error) {
	c := &fakeClient{kinds: k, config: apiserver.NewConfig(k.server, caller), managedFields: managedFields, indices: indices}
	inner, err := c.inner()
	c.WithWatch = inner
	return c, err
}

// inner returns the client for the present kinds.
func (c *fakeClient) inner() (client.WithWatch, error) {
	mapper, n := c.kinds.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil || c.mapping != n {
		latest, err := client.NewWithWatch(c.config, client.Options{Scheme: c.kinds.scheme, Mapper: mapper})
		if err != nil {
			return nil, err
		}
		c.latest, c.mapping = latest, n
	}
	return c.latest, nil
}

// do makes a request about an object, and removes managed fields from the result.
func (c *fakeClient) do(obj client.Object, namespace string, request func(inner client.WithWatch) error) error {
	c.kinds.useObject(obj, namespace, true)
	inner, err := c.inner()
	if err != nil {
		return err
	}
	if err := request(inner); err != nil {
		return err
	}
	c.strip(obj)
	return nil
}

// strip removes managed fields, unless the client returns them.
func (c *fakeClient) strip(obj runtime.Object) {
	if m, err := meta.Accessor(obj); err == nil && !c.managedFields {
		m.SetManagedFields(nil)
	}
}

// RESTMapper implements client.Client.
func (c *fakeClient) RESTMapper() meta.RESTMapper {
	if c.kinds.given != nil {
		return c.kinds.given
	}
	mapper, _ := c.kinds.current()
	return mapper
}

// IsObjectNamespaced implements client.Client.
func (c *fakeClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(obj, c.Scheme(), c.RESTMapper())
}

// Get implements client.Reader.
func (c *fakeClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.do(obj, key.Namespace, func(inner client.WithWatch) error { return inner.Get(ctx, key, obj, opts...) })
}

// Create implements client.Writer.
func (c *fakeClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.do(obj, obj.GetNamespace(), func(inner client.WithWatch) error {
		if err := c.kinds.createNamespace(obj, obj.GetNamespace()); err != nil {
			return err
		}
		return inner.Create(ctx, obj, opts...)
	})
}

// Update implements client.Writer.
func (c *fakeClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.do(obj, obj.GetNamespace(), func(inner client.WithWatch) error { return inner.Update(ctx, obj, opts...) })
}

// Patch implements client.Writer.
func (c *fakeClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.do(obj, obj.GetNamespace(), func(inner client.WithWatch) error {
		if patch.Type() == types.ApplyPatchType {
			if err := c.kinds.createNamespace(obj, obj.GetNamespace()); err != nil {
				return err
			}
		}
		return inner.Patch(ctx, obj, patch, opts...)
	})
}

// Delete implements client.Writer.
func (c *fakeClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.do(obj, obj.GetNamespace(), func(inner client.WithWatch) error { return inner.Delete(ctx, obj, opts...) })
}

// DeleteAllOf implements client.Writer.
func (c *fakeClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	var all client.DeleteAllOfOptions
	all.ApplyOptions(opts)
	if !c.kinds.useObject(obj, all.Namespace, all.Namespace != "") {
		return nil
	}
	inner, err := c.inner()
	if err != nil {
		return err
	}
	return inner.DeleteAllOf(ctx, obj, opts...)
}

// Apply implements client.Writer.
func (c *fakeClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := c.useApplied(obj); err != nil {
		return err
	}
	inner, err := c.inner()
	if err != nil {
		return err
	}
	err = inner.Apply(ctx, obj, opts...)
	c.stripApplied(obj)
	return err
}

// stripApplied removes managed fields from an apply configuration, which could not be applied again
// with them.
func (c *fakeClient) stripApplied(obj runtime.ApplyConfiguration) {
	if m, ok := obj.(metav1.Object); ok && !c.managedFields {
		m.SetManagedFields(nil)
	}
}

// useApplied makes the server serve the kind and the namespace of what is applied.
func (c *fakeClient) useApplied(obj runtime.ApplyConfiguration) error {
	data, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("apply %T: %w", obj, err)
	}
	c.kinds.useObject(&head, head.Namespace, true)
	return c.kinds.createNamespace(&head, head.Namespace)
}

// List implements client.Reader. A field selector uses the indices, if there is one for each field,
// otherwise the fields that are selectable in the server.
func (c *fakeClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var all client.ListOptions
	all.ApplyOptions(opts)
	if !c.kinds.useObject(list, all.Namespace, all.Namespace != "") {
		list.SetResourceVersion(fmt.Sprint(c.kinds.server.Revision()))
		return meta.SetList(list, nil)
	}
	inner, err := c.inner()
	if err != nil {
		return err
	}
	matches, err := c.matcher(list, all.FieldSelector)
	if err != nil {
		return err
	}
	limit := all.Limit
	if matches != nil {
		all.FieldSelector, all.Limit = nil, 0
	}
	if err := inner.List(ctx, list, &all); err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	if matches != nil {
		objects = slices.DeleteFunc(objects, func(o runtime.Object) bool { return !matches(o.(client.Object)) })
		if limit > 0 && int64(len(objects)) > limit {
			objects = objects[:limit]
		}
	}
	for _, obj := range objects {
		c.strip(obj)
	}
	return meta.SetList(list, objects)
}

// matcher returns whether an object has the values of a selector in the indices of its kind. It is
// nil if the server selects.
func (c *fakeClient) matcher(list client.ObjectList, selector fields.Selector) (func(client.Object) bool, error) {
	if selector == nil || selector.Empty() {
		return nil, nil
	}
	kind, err := apiutil.GVKForObject(list, c.kinds.scheme)
	if err != nil {
		return nil, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	indices := c.indicesOf(kind)
	requirements := selector.Requirements()
	missing := slices.IndexFunc(requirements, func(r fields.Requirement) bool { return indices[r.Field] == nil })
	switch indexed := slices.ContainsFunc(requirements, func(r fields.Requirement) bool { return indices[r.Field] != nil }); {
	case !indexed:
		return nil, nil
	case missing >= 0:
		return nil, errNoIndex(kind, requirements[missing].Field)
	}
	for _, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return nil, errInexactSelector
		}
	}
	return func(obj client.Object) bool {
		for _, r := range requirements {
			if !slices.Contains(indices[r.Field](obj), r.Value) {
				return false
			}
		}
		return true
	}, nil
}

// indicesOf returns the indices of a kind by field.
func (c *fakeClient) indicesOf(kind schema.GroupVersionKind) map[string]client.IndexerFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]client.IndexerFunc{}
	for _, i := range c.indices {
		if i.kind == kind {
			out[i.field] = i.extract
		}
	}
	return out
}

// AddIndex adds an index to a client of this package, as WithIndex does. It panics for another one.
func AddIndex(c client.Client, obj runtime.Object, field string, extractValue client.IndexerFunc) error {
	fake, ok := c.(*fakeClient)
	if !ok {
		panic("AddIndex can only be used with a fake client")
	}
	kind, err := apiutil.GVKForObject(obj, fake.kinds.scheme)
	if err != nil {
		return fmt.Errorf("failed to get gvk for %T: %w", obj, err)
	}
	if fake.indicesOf(kind)[field] != nil {
		return fmt.Errorf("index %s already exists", field)
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	fake.indices = append(fake.indices, index{kind, field, extractValue})
	return nil
}

// Watch implements client.WithWatch.
func (c *fakeClient) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	var all client.ListOptions
	all.ApplyOptions(opts)
	if !c.kinds.useObject(list, all.Namespace, all.Namespace != "") {
		c.kinds.useObject(list, metav1.NamespaceDefault, true)
	}
	inner, err := c.inner()
	if err != nil {
		return nil, err
	}
	w, err := inner.Watch(ctx, list, opts...)
	if err != nil || c.managedFields {
		return w, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		c.strip(e.Object)
		return e, true
	}), nil
}
