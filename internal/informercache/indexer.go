package informercache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// indexer is a sorted cache.Indexer: it lists by key, where client-go's has no order. It always has
// the namespace index, which needs no memory since the keys are sorted. Its methods may be called
// concurrently.
type indexer struct {
	mu       sync.RWMutex
	items    btree.Map[string, any] // guarded by mu
	indices  map[string]index       // guarded by mu: by name
	revision string                 // guarded by mu: the latest one
	observer ReadObserver           // see Informer.OnRead; nil: none
}

// reset empties the indexer and removes its indices.
func (x *indexer) reset() {
	x.items.Clear()
	clear(x.indices)
	x.revision, x.observer = "", nil
}

// read reports a read of an object, or with "" of all.
func (x *indexer) read(key string) {
	if x.observer != nil {
		x.observer.ObserveRead(key)
	}
}

// index maps the values of an index function to keys.
type index struct {
	of   cache.IndexFunc
	keys map[string][]string // by value; sorted
}

var _ cache.Indexer = (*indexer)(nil)

// Add adds or replaces an object.
func (x *indexer) Add(obj any) error {
	key, err := keyFor(obj)
	if err == nil {
		x.put(key, obj)
	}
	return err
}

// Update adds or replaces an object.
func (x *indexer) Update(obj any) error { return x.Add(obj) }

// put adds or replaces the object of a key.
func (x *indexer) put(key string, obj any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, _ := x.items.Set(key, obj)
	x.setRevision(obj)
	for name, in := range x.indices {
		in.move(name, key, old, obj)
	}
}

// Delete removes an object.
func (x *indexer) Delete(obj any) error {
	key, err := keyFor(obj)
	if err == nil {
		x.remove(key, obj)
	}
	return err
}

// remove removes the object of a key. obj is its last state.
func (x *indexer) remove(key string, obj any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, _ := x.items.Delete(key)
	x.setRevision(obj)
	for name, in := range x.indices {
		in.move(name, key, old, nil)
	}
}

// Replace replaces all objects.
func (x *indexer) Replace(objects []any, rv string) error {
	keys := make([]string, len(objects))
	for i, obj := range objects {
		var err error
		if keys[i], err = keyFor(obj); err != nil {
			return err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items.Clear()
	for i, obj := range objects {
		x.items.Set(keys[i], obj)
	}
	x.revision = rv
	for name, in := range x.indices {
		clear(in.keys)
		x.fill(name, in)
	}
	return nil
}

// setRevision records the revision of an object.
func (x *indexer) setRevision(obj any) {
	if m, err := meta.Accessor(obj); err == nil {
		x.revision = m.GetResourceVersion()
	}
}

// Bookmark records a revision.
func (x *indexer) Bookmark(rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revision = rv
}

// LastStoreSyncResourceVersion returns the latest revision.
func (x *indexer) LastStoreSyncResourceVersion() string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.revision
}

// Resync does nothing.
func (x *indexer) Resync() error { return nil }

// List returns the objects, sorted by key.
func (x *indexer) List() []any {
	x.read("")
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items.Values()
}

// size returns the number of objects.
func (x *indexer) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items.Len()
}

// ListKeys returns the keys, sorted.
func (x *indexer) ListKeys() []string {
	x.read("")
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items.Keys()
}

// Get returns the object with the key of obj.
func (x *indexer) Get(obj any) (any, bool, error) {
	key, err := keyFor(obj)
	if err != nil {
		return nil, false, err
	}
	return x.GetByKey(key)
}

// GetByKey returns the object of a key.
func (x *indexer) GetByKey(key string) (any, bool, error) {
	x.read(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	obj, ok := x.items.Get(key)
	return obj, ok, nil
}

// Index returns the objects that share a value of an index with obj, sorted by key.
func (x *indexer) Index(name string, obj any) ([]any, error) {
	of, ok := x.GetIndexers()[name]
	if !ok {
		return nil, noIndex(name)
	}
	values, err := of(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return x.ByIndex(name, values[0])
	}
	var keys []string
	for _, value := range values {
		some, err := x.IndexKeys(name, value)
		if err != nil {
			return nil, err
		}
		keys = append(keys, some...)
	}
	slices.Sort(keys)
	return x.get(slices.Compact(keys)), nil
}

// ByIndex returns the objects with a value of an index, sorted by key.
func (x *indexer) ByIndex(name, value string) ([]any, error) {
	x.read("")
	if name == cache.NamespaceIndex {
		var objects []any
		x.scan(value, func(_ string, obj any) { objects = append(objects, obj) })
		return objects, nil
	}
	keys, err := x.IndexKeys(name, value)
	if err != nil {
		return nil, err
	}
	return x.get(keys), nil
}

// IndexKeys returns the keys of the objects with a value of an index, sorted.
func (x *indexer) IndexKeys(name, value string) ([]string, error) {
	x.read("")
	if name == cache.NamespaceIndex {
		var keys []string
		x.scan(value, func(key string, _ any) { keys = append(keys, key) })
		return keys, nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	in, ok := x.indices[name]
	if !ok {
		return nil, noIndex(name)
	}
	return slices.Clone(in.keys[value]), nil
}

// scan calls f for the objects of a namespace, sorted by key.
func (x *indexer) scan(namespace string, f func(key string, obj any)) {
	prefix := ""
	if namespace != "" {
		prefix = namespace + "/"
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.items.Ascend(prefix, func(key string, obj any) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if namespace != "" || !strings.Contains(key, "/") {
			f(key, obj)
		}
		return true
	})
}

// ListIndexFuncValues returns the values of an index, sorted.
func (x *indexer) ListIndexFuncValues(name string) []string {
	x.read("")
	x.mu.RLock()
	defer x.mu.RUnlock()
	if name != cache.NamespaceIndex {
		return slices.Sorted(maps.Keys(x.indices[name].keys))
	}
	namespaces := map[string]struct{}{}
	x.items.Scan(func(key string, _ any) bool {
		namespace, _, found := strings.Cut(key, "/")
		if !found {
			namespace = ""
		}
		namespaces[namespace] = struct{}{}
		return true
	})
	return slices.Sorted(maps.Keys(namespaces))
}

// GetIndexers returns the index functions by name.
func (x *indexer) GetIndexers() cache.Indexers {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for name, in := range x.indices {
		all[name] = in.of
	}
	return all
}

// AddIndexers adds indices, and fills them with the existing objects. An existing name is an error.
func (x *indexer) AddIndexers(more cache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	conflict := ""
	for name := range more {
		if _, ok := x.indices[name]; (ok || name == cache.NamespaceIndex) && (conflict == "" || name < conflict) {
			conflict = name
		}
	}
	if conflict != "" {
		return fmt.Errorf("indexer conflict: %s", conflict)
	}
	if x.indices == nil {
		x.indices = make(map[string]index, len(more))
	}
	for name, of := range more {
		in := index{of: of, keys: map[string][]string{}}
		x.indices[name] = in
		x.fill(name, in)
	}
	return nil
}

// fill adds all objects to an index.
func (x *indexer) fill(name string, in index) {
	x.items.Scan(func(key string, obj any) bool {
		in.move(name, key, nil, obj)
		return true
	})
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

// move updates an index for a change of the object of a key. nil: no object.
func (in index) move(name, key string, old, obj any) {
	before, after := in.values(name, key, old), in.values(name, key, obj)
	if slices.Equal(before, after) {
		return
	}
	for _, value := range before {
		keys := in.keys[value]
		if i, found := slices.BinarySearch(keys, key); found {
			keys = slices.Delete(keys, i, i+1)
		}
		if in.keys[value] = keys; len(keys) == 0 {
			delete(in.keys, value)
		}
	}
	for _, value := range after {
		if i, found := slices.BinarySearch(in.keys[value], key); !found {
			in.keys[value] = slices.Insert(in.keys[value], i, key)
		}
	}
}

// values returns the values of an index for an object. Like client-go's, it panics if the index
// function fails.
func (in index) values(name, key string, obj any) []string {
	if obj == nil {
		return nil
	}
	values, err := in.of(obj)
	if err != nil {
		panic(fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", key, name, err))
	}
	return values
}

// keyOf returns the key of an object that has metadata.
func keyOf(obj any) string {
	key, err := keyFor(obj)
	must(err)
	return key
}

// keyFor returns the key of any object.
func keyFor(obj any) (string, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return "", cache.KeyError{Obj: obj, Err: err}
	}
	return key, nil
}

// noIndex returns client-go's error for an unknown index.
func noIndex(name string) error {
	return fmt.Errorf("Index with name %s does not exist", name)
}
