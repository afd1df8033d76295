package ctrlruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/volsim/volsim/cluster"
)

// A processCache is the cache of a manager: the informers of the process, and a client that reads
// from them.
type processCache struct {
	process cluster.ComponentContext
	reader  client.Client
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	failed  chan error // the first error of a source

	mu       sync.Mutex // sources start concurrently
	handles  int
	started  bool
	handlers []*handlerRegistration
	indices  map[indexedType]map[string]client.IndexerFunc
}

// An indexedType is a kind in one form: typed, unstructured or metadata.
type indexedType struct {
	schema.GroupVersionKind
	form string
}

// typeOf returns the type of an object or of the items of a list.
func (c *processCache) typeOf(obj runtime.Object) (indexedType, error) {
	kind, err := apiutil.GVKForObject(obj, c.scheme)
	if _, list := obj.(client.ObjectList); list {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	out := indexedType{GroupVersionKind: kind}
	switch obj.(type) {
	case runtime.Unstructured:
		out.form = "unstructured"
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		out.form = "metadata"
	}
	return out, err
}

func newProcessCache(p cluster.ComponentContext, reader client.Client, scheme *runtime.Scheme, mapper meta.RESTMapper) *processCache {
	return &processCache{
		process: p, reader: reader, scheme: scheme, mapper: mapper, failed: make(chan error, 1),
		indices: map[indexedType]map[string]client.IndexerFunc{},
	}
}

// handle returns the cache for one source. The numbers of the handles order the handlers.
func (c *processCache) handle() cache.Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles++
	return &handle{c, c.handles}
}

// register adds the handlers to the informers of the process, in order.
func (c *processCache) register() error {
	slices.SortStableFunc(c.handlers, func(a, b *handlerRegistration) int {
		return cmp.Or(cmp.Compare(a.handle, b.handle), strings.Compare(a.of.kind.String(), b.of.kind.String()),
			strings.Compare(fmt.Sprintf("%T", a.handler), fmt.Sprintf("%T", b.handler)))
	})
	c.started = true
	for _, r := range c.handlers {
		if err := r.add(); err != nil {
			return err
		}
	}
	return nil
}

// A handle is a cache as one source or client has it.
type handle struct {
	*processCache
	number int
}

// fail reports an error of a source, which would be retried until a timeout.
func (c *processCache) fail(err error) error {
	select {
	case c.failed <- err:
	default:
	}
	return err
}

// GetInformer implements cache.Informers.
func (h *handle) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind, err := apiutil.GVKForObject(obj, h.scheme)
	if err != nil {
		return nil, h.fail(err)
	}
	return h.informer(kind, obj)
}

// GetInformerForKind implements cache.Informers.
func (h *handle) GetInformerForKind(_ context.Context, kind schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := h.scheme.New(kind)
	if err != nil {
		return nil, h.fail(err)
	}
	return h.informer(kind, obj.(client.Object))
}

func (h *handle) informer(kind schema.GroupVersionKind, obj client.Object) (cache.Informer, error) {
	mapping, err := h.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, h.fail(err)
	}
	return &informer{cache: h.processCache, handle: h.number, kind: kind, resource: mapping.Resource, as: obj}, nil
}

// RemoveInformer implements cache.Informers. The informers of a process stay.
func (*handle) RemoveInformer(context.Context, client.Object) error { return nil }

// Start implements cache.Informers. The informers of a process run with it.
func (*handle) Start(ctx context.Context) error { <-ctx.Done(); return nil }

// WaitForCacheSync reports whether the caches have synced. It is always true: the workers of a
// process wait for its caches.
func (*handle) WaitForCacheSync(context.Context) bool { return true }

// IndexField implements client.FieldIndexer.
func (c *processCache) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	kind, err := c.typeOf(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indices[kind] == nil {
		c.indices[kind] = map[string]client.IndexerFunc{}
	}
	if _, exists := c.indices[kind][field]; exists {
		return fmt.Errorf("indexer conflict: field %q of %s has an index", field, kind.Kind)
	}
	c.indices[kind][field] = extract
	return nil
}

// Get implements client.Reader.
func (c *processCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}

// List implements client.Reader. A field selector uses the indices of IndexField.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/cache/internal CacheReader.
func (c *processCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var all client.ListOptions
	all.ApplyOptions(opts)
	if all.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	selector, limit := all.FieldSelector, all.Limit
	if selector == nil || selector.Empty() {
		return c.reader.List(ctx, list, &all)
	}
	kind, err := c.typeOf(list)
	if err != nil {
		return err
	}
	matches, err := c.matcher(kind, selector)
	if err != nil {
		return err
	}
	all.FieldSelector, all.Limit = nil, 0
	if err := c.reader.List(ctx, list, &all); err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o runtime.Object) bool { return !matches(o.(client.Object)) })
	if limit > 0 && int64(len(objects)) > limit {
		objects = objects[:limit]
	}
	return meta.SetList(list, objects)
}

// matcher returns whether an object has the values of a field selector in its indices.
func (c *processCache) matcher(kind indexedType, selector fields.Selector) (func(client.Object) bool, error) {
	requirements := selector.Requirements()
	for _, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return nil, errors.New("non-exact field matches are not supported by the cache")
		}
	}
	indices := c.indices[kind]
	for _, r := range requirements {
		if indices[r.Field] == nil {
			return nil, fmt.Errorf("Index with name field:%s does not exist", r.Field) //nolint:staticcheck // upstream's text
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

// An informer is an informer of the process for objects of one type. Its methods besides those of
// this type need the informer of the process, and work when the component has started.
type informer struct {
	toolscache.SharedIndexInformer
	cache    *processCache
	handle   int
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	as       client.Object
}

// A handlerRegistration is a handler of an informer.
type handlerRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	of      *informer
	handle  int
	handler toolscache.ResourceEventHandler
}

// HasSynced reports whether the handler has the initial list. It is always true: the workers of a
// process wait for its caches.
func (*handlerRegistration) HasSynced() bool { return true }

// HasSynced reports whether the informer has synced. It is always true; see WaitForCacheSync.
func (*informer) HasSynced() bool { return true }

// IsStopped reports whether the informer has ended, which it does only with its process.
func (*informer) IsStopped() bool { return false }

// AddIndexers implements cache.Informer.
func (*informer) AddIndexers(toolscache.Indexers) error {
	return errors.New("indexers of an informer are not supported: use GetFieldIndexer().IndexField")
}

// AddEventHandler implements cache.Informer.
func (v *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	r := &handlerRegistration{of: v, handle: v.handle, handler: h}
	if v.cache.started {
		return r, errors.New("event handler added after Setup: add all handlers in Setup")
	}
	v.cache.handlers = append(v.cache.handlers, r)
	return r, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: there is no resync.
func (v *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler: there is no resync.
func (v *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// RemoveEventHandler implements cache.Informer.
func (v *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	v.cache.handlers = slices.DeleteFunc(v.cache.handlers, func(r *handlerRegistration) bool { return r == handle })
	return nil
}

// add adds the handler to the informer of the process.
func (r *handlerRegistration) add() error {
	v := r.of
	generic, err := v.cache.process.Informers.ForResource(v.resource)
	if err != nil {
		return err
	}
	v.SharedIndexInformer = generic.Informer()
	_, err = v.SharedIndexInformer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { r.handler.OnAdd(v.convert(obj), initial) },
		UpdateFunc: func(old, new any) { r.handler.OnUpdate(v.convert(old), v.convert(new)) },
		DeleteFunc: func(obj any) {
			if gone, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
				gone.Obj = v.convert(gone.Obj)
				r.handler.OnDelete(gone)
				return
			}
			r.handler.OnDelete(v.convert(obj))
		},
	})
	return err
}

// convert returns a cached object in the type that the source watches.
func (v *informer) convert(obj any) any {
	out, err := v.converted(obj.(runtime.Object))
	if err != nil {
		panic(fmt.Sprintf("ctrlruntime: %s as %T: %v", v.kind.Kind, v.as, err))
	}
	return out
}

func (v *informer) converted(obj runtime.Object) (runtime.Object, error) {
	cached, custom := obj.(*unstructured.Unstructured)
	switch v.as.(type) {
	case *metav1.PartialObjectMetadata:
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		out := meta.AsPartialObjectMetadata(accessor)
		out.SetGroupVersionKind(v.kind)
		return out, nil
	case *unstructured.Unstructured:
		if custom {
			return obj, nil
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		out := &unstructured.Unstructured{Object: content}
		out.SetGroupVersionKind(v.kind)
		return out, nil
	}
	if !custom {
		return obj, nil
	}
	out, err := v.cache.scheme.New(v.kind)
	if err != nil {
		return nil, err
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(cached.Object, out)
}
