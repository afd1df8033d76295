package informercache

import (
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Informer is what one component has seen of one resource. What moves it, Fill, Replace, Put and Remove, is called in the
// component's monitor; its handlers are called from there, in order of registration.
//
// The objects in it are read-only. Handlers are added, and the view is read, by the component's strands or before the host
// starts; HasSynced and the indexer may be used from anywhere.
//
// Differs: lists are in order of key; there is no resync; the watch error handler is never called; Run only waits.
type Informer struct {
	name      string
	indexer   indexer
	revision  string
	synced    atomic.Bool
	done      chan struct{}   // closed when synced
	handlers  []*registration // replaced, never changed: a handler may add and remove handlers
	transform cache.TransformFunc
}

var _ cache.SharedIndexInformer = (*Informer)(nil)

// New makes a view that has seen nothing. The name says what is waited for, such as "pvcontroller cache pods".
func New(name string) *Informer { return &Informer{name: name, done: make(chan struct{})} }

// Fill takes in the first list, of which no handler hears.
func (v *Informer) Fill(all []any, revision string) {
	v.revision = revision
	must(v.indexer.Replace(all, revision))
	v.sync()
}

// Replace takes in a list. Of the first one handlers hear as such. Another one makes up for events that are not to be had
// any more: handlers hear of what is new or has changed, then of what went; the last state known of that is wrapped in a
// cache.DeletedFinalStateUnknown.
func (v *Informer) Replace(all []any, revision string) {
	v.revision = revision
	was := v.indexer.List()
	must(v.indexer.Replace(all, revision))
	if v.HasSynced() {
		v.notifyDifference(was, all)
		return
	}
	for _, obj := range all {
		v.notify(func(h cache.ResourceEventHandler) { h.OnAdd(obj, true) })
	}
	v.sync()
}

func (v *Informer) sync() {
	v.synced.Store(true)
	close(v.done)
}

// notifyDifference tells handlers what a list changed.
func (v *Informer) notifyDifference(was, is []any) {
	before := make(map[string]any, len(was))
	for _, obj := range was {
		before[keyOf(obj)] = obj
	}
	for _, obj := range is {
		k := keyOf(obj)
		old, had := before[k]
		delete(before, k)
		switch {
		case !had:
			v.notify(func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
		case revisionOf(old) != revisionOf(obj):
			v.notify(func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
		}
	}
	for _, obj := range was {
		if k := keyOf(obj); before[k] != nil {
			v.notify(func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Key: k, Obj: obj}) })
		}
	}
}

// Put takes in an object that has come or changed, and tells handlers of it if they are to hear. It returns which of the
// two it is.
func (v *Informer) Put(key string, obj any, revision string, heard bool) watch.EventType {
	v.revision = revision
	old, had := v.Get(key)
	v.indexer.put(key, obj)
	kind := watch.Added
	if had {
		kind = watch.Modified
	}
	if !heard {
		return kind
	}
	if had {
		v.notify(func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
	} else {
		v.notify(func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
	}
	return kind
}

// Remove takes in that an object has gone, of which obj is the last state, and tells handlers of it if they are to hear.
// One that is not in the view is no news.
func (v *Informer) Remove(key string, obj any, revision string, heard bool) {
	v.revision = revision
	if _, had := v.Get(key); !had {
		return
	}
	v.indexer.remove(key, obj)
	if heard {
		v.notify(func(h cache.ResourceEventHandler) { h.OnDelete(obj) })
	}
}

// Get returns the object of a key, "namespace/name" or "name", and whether there is one. It may be called from anywhere.
func (v *Informer) Get(key string) (any, bool) {
	obj, had, _ := v.indexer.GetByKey(key) // its error is always nil
	return obj, had
}

// Len is how many objects there are. It may be called from anywhere.
func (v *Informer) Len() int { return v.indexer.size() }

// Transform is what the view keeps of an object: what the function given to SetTransform makes of a copy of it.
func (v *Informer) Transform(obj runtime.Object) any {
	if v.transform == nil {
		return obj
	}
	out, err := v.transform(obj.DeepCopyObject())
	if err != nil {
		panic(fmt.Errorf("transform for %s: %w", v.name, err))
	}
	return out
}

func (v *Informer) notify(f func(cache.ResourceEventHandler)) {
	for _, r := range v.handlers {
		f(r.handler)
	}
}

// revisionOf is an object's resourceVersion.
func revisionOf(obj any) string {
	if o, ok := obj.(metav1.Object); ok {
		return o.GetResourceVersion()
	}
	o, err := meta.Accessor(obj)
	must(err)
	return o.GetResourceVersion()
}

func must(err error) {
	if err != nil {
		panic(err) // the indexer of objects with metadata does not fail
	}
}
