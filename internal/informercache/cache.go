package informercache

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// laterMethods answers the methods of SharedIndexInformer that this package does not know: those of
// later versions of client-go. It never runs.
type laterMethods struct{ cache.SharedIndexInformer }

var neverRun = sync.OnceValue(func() laterMethods {
	return laterMethods{cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, nil)}
})

// Informer is a process's cache of one resource. Fill, Replace, Put and Remove apply changes. They
// are called in the process's monitor, and call the handlers in order of registration.
//
// The objects are read-only. Handlers are added, and the cache is read, by the process's tasks or
// before the host starts. HasSynced and the indexer may be used concurrently.
//
// Differs: lists are sorted by key; there is no resync; the watch error handler is never called;
// Run only waits.
type Informer struct {
	laterMethods
	// The queue is empty and syncs when the informer does. Its method HasSyncedChecker has a type
	// that client-go has since 0.36; an older client-go has and needs neither.
	*cache.FIFO

	name      string
	indexer   indexer
	revision  string
	synced    atomic.Bool
	handlers  []*registration // appended to, or copied: a handler may add and remove handlers
	transform cache.TransformFunc
}

var _ cache.SharedIndexInformer = (*Informer)(nil)

// New returns an informer that has not listed. The name says what it caches, such as "pods".
func New(name string) *Informer {
	v := &Informer{}
	v.Init(name)
	return v
}

// Init makes a zero Informer, such as a field of another struct, one that has not listed.
func (v *Informer) Init(name string) {
	v.laterMethods, v.FIFO, v.name = neverRun(), newQueue(), name
}

// Reset makes an informer one that has not listed, for another world. It keeps memory only. Nothing may
// use it as before.
func (v *Informer) Reset(name string) {
	for _, r := range v.handlers {
		*r = registration{} // for a handler of the other world
	}
	v.revision, v.handlers, v.transform = "", v.handlers[:0], nil
	v.synced.Store(false)
	v.indexer.reset()
	v.Init(name)
}

// sharedQueue is the queue of all informers if client-go has no HasSyncedChecker, for which each of them
// needs its own; nil: it has.
var sharedQueue = sync.OnceValue(func() *cache.FIFO {
	queue := cache.NewFIFO(cache.MetaNamespaceKeyFunc)
	if _, has := reflect.TypeOf(queue).MethodByName("HasSyncedChecker"); has {
		return nil
	}
	return queue
})

// newQueue returns the queue of an informer.
func newQueue() *cache.FIFO {
	if queue := sharedQueue(); queue != nil {
		return queue
	}
	return cache.NewFIFO(cache.MetaNamespaceKeyFunc)
}

// A ReadObserver is called before each read of the cache, with the key of the object, or "" if the read
// may concern any.
type ReadObserver interface{ ObserveRead(key string) }

// OnRead sets the observer of reads. It must be set before the cache is read.
func (v *Informer) OnRead(o ReadObserver) { v.indexer.observer = o }

// Fill applies the first list without calling handlers.
func (v *Informer) Fill(all []any, revision string) {
	v.revision = revision
	must(v.indexer.Replace(all, revision))
	v.sync()
}

// Replace applies a list. Handlers receive the first one as the initial list. A later one
// compensates for missed events: handlers receive additions and updates, then deletions. A deleted
// object's last known state is wrapped in a cache.DeletedFinalStateUnknown.
func (v *Informer) Replace(all []any, revision string) {
	v.revision = revision
	previous := v.indexer.List()
	must(v.indexer.Replace(all, revision))
	if v.HasSynced() {
		v.notifyDifference(previous, all)
		return
	}
	for _, obj := range all {
		v.notify(func(h cache.ResourceEventHandler) { h.OnAdd(obj, true) })
	}
	v.sync()
}

func (v *Informer) sync() {
	v.synced.Store(true)
	if v.FIFO != sharedQueue() {
		must(v.FIFO.Replace(nil, ""))
	}
}

// notifyDifference calls the handlers for the changes between two lists.
func (v *Informer) notifyDifference(previous, current []any) {
	before := make(map[string]any, len(previous))
	for _, obj := range previous {
		before[keyOf(obj)] = obj
	}
	for _, obj := range current {
		k := keyOf(obj)
		old, exists := before[k]
		delete(before, k)
		switch {
		case !exists:
			v.notify(func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
		case revisionOf(old) != revisionOf(obj):
			v.notify(func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
		}
	}
	for _, obj := range previous {
		if k := keyOf(obj); before[k] != nil {
			v.notify(func(h cache.ResourceEventHandler) {
				h.OnDelete(cache.DeletedFinalStateUnknown{
					Key: k, Obj: obj,
				})
			})
		}
	}
}

// Put applies an addition or an update, and returns which of the two it was. Handlers are called if
// notify is set.
func (v *Informer) Put(key string, obj any, revision string, notify bool) watch.EventType {
	v.revision = revision
	old, exists := v.Get(key)
	v.indexer.put(key, obj)
	kind := watch.Added
	if exists {
		kind = watch.Modified
	}
	if !notify {
		return kind
	}
	if exists {
		v.notify(func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
	} else {
		v.notify(func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
	}
	return kind
}

// Remove applies a deletion. obj is the last state of the object. Handlers are called if notify is
// set. An object that is not cached is ignored.
func (v *Informer) Remove(key string, obj any, revision string, notify bool) {
	v.revision = revision
	if _, exists := v.Get(key); !exists {
		return
	}
	v.indexer.remove(key, obj)
	if notify {
		v.notify(func(h cache.ResourceEventHandler) { h.OnDelete(obj) })
	}
}

// Get returns the object of a key, "namespace/name" or "name", and whether it is cached. It may be
// called concurrently.
func (v *Informer) Get(key string) (any, bool) {
	obj, exists, _ := v.indexer.GetByKey(key) // its error is always nil
	return obj, exists
}

// Len returns the number of objects. It may be called concurrently.
func (v *Informer) Len() int { return v.indexer.size() }

// Transform returns what the cache keeps of an object: a transformed copy, if SetTransform was
// called.
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

// revisionOf returns an object's resourceVersion.
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
		panic(err) // the indexer does not fail for objects with metadata
	}
}
