package fake

import (
	"maps"
	"slices"
	"sync"

	"github.com/tidwall/btree"
	"k8s.io/client-go/tools/cache"
)

// indexer is client-go's indexer with an order: it lists by key, where client-go's lists by chance. Its methods may be
// called concurrently.
type indexer struct {
	cache.Indexer // keeps the indices

	mu    sync.RWMutex
	items btree.Map[string, any] // guarded by mu
}

var _ cache.Indexer = (*indexer)(nil)

func newIndexer() *indexer {
	return &indexer{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})}
}

// Add puts an object in.
func (x *indexer) Add(obj any) error { return x.put(obj, x.Indexer.Add) }

// Update puts an object in.
func (x *indexer) Update(obj any) error { return x.put(obj, x.Indexer.Update) }

func (x *indexer) put(obj any, put func(any) error) error {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items.Set(key, obj)
	return put(obj)
}

// Delete takes an object out.
func (x *indexer) Delete(obj any) error {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items.Delete(key)
	return x.Indexer.Delete(obj)
}

// Replace puts all objects out, and others in.
func (x *indexer) Replace(objects []any, rv string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items.Clear()
	for _, obj := range objects {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return cache.KeyError{Obj: obj, Err: err}
		}
		x.items.Set(key, obj)
	}
	return x.Indexer.Replace(objects, rv)
}

// List returns the objects, by key.
func (x *indexer) List() []any {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items.Values()
}

// size is how many objects there are.
func (x *indexer) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items.Len()
}

// ListKeys returns the keys, sorted.
func (x *indexer) ListKeys() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items.Keys()
}

// GetByKey returns the object of a key.
func (x *indexer) GetByKey(key string) (any, bool, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	obj, ok := x.items.Get(key)
	return obj, ok, nil
}

// Index returns the objects that share a value of an index with obj, by key.
func (x *indexer) Index(name string, obj any) ([]any, error) {
	f, ok := x.GetIndexers()[name]
	if !ok {
		return x.Indexer.Index(name, obj) // fails
	}
	values, err := f(obj)
	if err != nil {
		return nil, err
	}
	keys := map[string]struct{}{}
	for _, value := range values {
		some, err := x.Indexer.IndexKeys(name, value)
		if err != nil {
			return nil, err
		}
		for _, key := range some {
			keys[key] = struct{}{}
		}
	}
	return x.get(slices.Sorted(maps.Keys(keys))), nil
}

// IndexKeys returns the keys of the objects with a value of an index, sorted.
func (x *indexer) IndexKeys(name, value string) ([]string, error) {
	keys, err := x.Indexer.IndexKeys(name, value)
	slices.Sort(keys)
	return keys, err
}

// ByIndex returns the objects with a value of an index, by key.
func (x *indexer) ByIndex(name, value string) ([]any, error) {
	keys, err := x.IndexKeys(name, value)
	if err != nil {
		return nil, err
	}
	return x.get(keys), nil
}

// ListIndexFuncValues returns the values of an index, sorted.
func (x *indexer) ListIndexFuncValues(name string) []string {
	values := x.Indexer.ListIndexFuncValues(name)
	slices.Sort(values)
	return values
}

func (x *indexer) get(keys []string) []any {
	x.mu.RLock()
	defer x.mu.RUnlock()
	objects := make([]any, 0, len(keys))
	for _, key := range keys {
		if obj, ok := x.items.Get(key); ok {
			objects = append(objects, obj)
		}
	}
	return objects
}
