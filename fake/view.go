package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// View is what one component has seen of one resource: a cache.SharedIndexInformer that is moved by the component's
// host. Its first step is a list, and each further step takes in exactly one event; in between the view is stale. The
// step calls the handlers, in order of registration, in the component's monitor. The component's workers do not start
// before the list.
//
// The objects in it are the stored ones, shared with everybody: read-only. Handlers are added, and the view is read, by
// the component's strands or before the host starts; HasSynced and the indexer may be used from anywhere.
//
// Differs: lists are in order of key; there is no resync; the watch error handler is never called; Run only waits.
type View struct {
	server    *Server
	table     *table
	component *sim.Component
	selector  selector                  // what the view is of; of all, mostly
	concerns  func(was, is Object) bool // nil: everything does; see Selection

	indexer   indexer
	position  int64 // in the log
	revision  string
	synced    atomic.Bool
	done      chan struct{}   // closed when synced
	handlers  []*registration // replaced, never changed: a handler may add and remove handlers
	transform cache.TransformFunc
	shown     *kind // of a custom resource: what is in the view is unstructured, of this version; nil: as it is stored
	lag       int   // of the first list, in events; see Server.Lag
	upTo      int64 // the position up to which it lags
	broken    bool  // the next step lists again; see Server.Break
}

var _ cache.SharedIndexInformer = (*View)(nil)

// newView gives a component a view of a resource.
func newView(s *Server, t *table, of selected, c *sim.Component) *View {
	v := &View{
		server: s, table: t, selector: of.selector, concerns: of.concerns, component: c, done: make(chan struct{}),
	}
	s.join(t, reader{c, c.LateDelivery("cache "+t.kind.resource, v.ready, v.late, v.step)})
	c.Gate(v.HasSynced)
	return v
}

// ready tells whether there is something to take in. Events that a selective view does not see are passed over here: a
// server would not send them. What does not concern the component is taken in here, too, and nobody hears of it.
func (v *View) ready() bool {
	if !v.synced.Load() {
		return v.concerns == nil || !v.listQuietly()
	}
	for v.position < v.table.log.end.Load() {
		if v.selector.all() && v.concerns == nil {
			return true
		}
		e, found := v.server.read(v.table, v.position)
		if found != readEvent {
			return true
		}
		was, is := v.change(e)
		if (was != nil || is != nil) && (v.concerns == nil || v.concerns(was, is)) {
			return true
		}
		v.position++
		v.take(e, false)
	}
	return false
}

// late tells whether the view lags behind by what happened before it listed.
func (v *View) late() bool { return v.position < v.upTo && v.synced.Load() }

// listQuietly lists if nothing in the list concerns the component, and tells whether it did.
func (v *View) listQuietly() bool {
	lag := v.lag
	all := v.snapshot()
	for _, obj := range all {
		if v.concerns(nil, obj.(Object)) {
			v.lag, v.upTo = lag, 0
			return false
		}
	}
	must(v.indexer.Replace(all, v.revision))
	v.sync()
	v.component.Wake() // its gate may be open now
	return true
}

// change is what an event is to the view: was is nil for what comes into it, is for what leaves it.
func (v *View) change(e *event) (was, is Object) {
	if old, had, _ := v.indexer.GetByKey(v.table.keyOf(e)); had { // its error is always nil
		was = old.(Object)
	}
	if e.kind != watch.Deleted && v.selector.matches(e.object) {
		is = e.object
	}
	return was, is
}

func (v *View) sync() {
	v.synced.Store(true)
	close(v.done)
}

// step lists, or takes in one event.
func (v *View) step() {
	if !v.synced.Load() {
		v.list()
		v.sync()
		v.noteList()
		return
	}
	e, found := v.server.read(v.table, v.position)
	if v.broken {
		v.broken, found = false, readTooOld
	}
	switch found {
	case readTooOld:
		v.relist()
		v.noteList()
	case readEvent:
		v.position++
		kind := v.take(e, true)
		v.component.Note(
			trace.Action{Kind: trace.KindDeliver, Verb: string(kind), Object: e.name}, trace.Outcome{Detail: e.detail})
	}
}

func (v *View) noteList() {
	v.component.Note(
		trace.Action{Kind: trace.KindDeliver, Verb: "LIST", Object: v.table.kind.resource},
		trace.Outcome{Detail: strconv.Itoa(v.indexer.size()) + " items rv=" + v.revision})
}

// take brings the view up to one event, tells the handlers if they are to hear of it, and returns what the event is to the
// view: an object that leaves a selection is deleted there, one that comes into it is added.
func (v *View) take(e *event, heard bool) watch.EventType {
	v.revision = e.detail[len(detailPrefix):]
	key := v.table.keyOf(e)
	old, had, _ := v.indexer.GetByKey(key) // its error is always nil
	gone := e.kind == watch.Deleted || !v.selector.matches(e.object)
	if gone && !had {
		return watch.Deleted // it was never in it
	}
	obj := v.transformed(e.object)
	if gone {
		v.indexer.remove(key, obj)
	} else {
		v.indexer.put(key, obj)
	}
	told := v.handlers
	if !heard {
		told = nil
	}
	switch {
	case gone:
		for _, r := range told {
			r.handler.OnDelete(obj)
		}
		return watch.Deleted
	case had:
		for _, r := range told {
			r.handler.OnUpdate(old, obj)
		}
		return watch.Modified
	default:
		for _, r := range told {
			r.handler.OnAdd(obj, false)
		}
		return watch.Added
	}
}

// snapshot reads the resource as it is now, and puts the view behind it in the log.
func (v *View) snapshot() []any {
	objects, position, revision := v.server.old(v.table, v.lag)
	if v.lag > 0 {
		v.upTo, v.lag = v.table.log.end.Load(), 0
	}
	v.position, v.revision = position, formatRevision(revision)
	var all []any
	if v.selector.all() {
		all = make([]any, 0, objects.Len())
	}
	v.selector.scan(objects, "", func(_ string, obj Object) bool {
		all = append(all, v.transformed(obj))
		return true
	})
	return all
}

func (v *View) list() {
	all := v.snapshot()
	must(v.indexer.Replace(all, v.revision))
	for _, obj := range all {
		v.tell(func(h cache.ResourceEventHandler) { h.OnAdd(obj, true) })
	}
}

// relist makes up for events that are not to be had any more. Handlers hear of what is new or has changed, then of what
// went: the last state known of that is wrapped in a cache.DeletedFinalStateUnknown.
func (v *View) relist() {
	was := v.indexer.List()
	all := v.snapshot()
	before := make(map[string]any, len(was))
	for _, obj := range was {
		before[keyOf(obj)] = obj
	}
	must(v.indexer.Replace(all, v.revision))
	for _, obj := range all {
		k := keyOf(obj)
		old, had := before[k]
		delete(before, k)
		switch {
		case !had:
			v.tell(func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
		case old.(Object).GetResourceVersion() != obj.(Object).GetResourceVersion():
			v.tell(func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
		}
	}
	for _, obj := range was {
		if k := keyOf(obj); before[k] != nil {
			v.tell(func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Key: k, Obj: obj}) })
		}
	}
}

func keyOf(obj any) string {
	o := obj.(Object)
	return key(o.GetNamespace(), o.GetName())
}

func (v *View) tell(f func(cache.ResourceEventHandler)) {
	for _, r := range v.handlers {
		f(r.handler)
	}
}

// transformed is what the view keeps of an object.
func (v *View) transformed(obj Object) any {
	if v.shown != nil {
		u, err := untyped(v.shown.show(obj), v.shown.gvk)
		must(err)
		obj = u
	}
	if v.transform == nil {
		return obj
	}
	out, err := v.transform(obj.DeepCopyObject())
	if err != nil {
		panic(fmt.Errorf("fake: transform of %s: %w", v.table.kind.resource, err))
	}
	return out
}

func must(err error) {
	if err != nil {
		panic(err) // the indexer of objects with metadata does not fail
	}
}

// registration is a handler of a view.
type registration struct {
	view    *View
	handler cache.ResourceEventHandler
}

// HasSynced tells whether the handler has seen the initial list, which it has when the view has.
func (r *registration) HasSynced() bool { return r.view.HasSynced() }

// HasSyncedChecker is done when HasSynced is true.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.view.HasSyncedChecker() }

// AddEventHandler adds a handler. If the view has listed, the handler hears of all that is in it before this returns.
func (v *View) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r := &registration{view: v, handler: h}
	v.handlers = append(v.handlers[:len(v.handlers):len(v.handlers)], r)
	if v.synced.Load() {
		for _, obj := range v.indexer.List() {
			h.OnAdd(obj, true)
		}
	}
	return r, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: there is no resync.
func (v *View) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	_ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler: there is no resync.
func (v *View) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	_ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// RemoveEventHandler takes a handler out; one that is not there is no error.
func (v *View) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	v.handlers = slices.DeleteFunc(slices.Clone(v.handlers),
		func(r *registration) bool { return cache.ResourceEventHandlerRegistration(r) == handle })
	return nil
}

// GetStore returns the view's objects.
func (v *View) GetStore() cache.Store { return &v.indexer }

// GetIndexer returns the view's objects.
func (v *View) GetIndexer() cache.Indexer { return &v.indexer }

// AddIndexers adds indices, also over what is in the view already.
func (v *View) AddIndexers(indexers cache.Indexers) error { return v.indexer.AddIndexers(indexers) }

// GetController returns the view.
func (v *View) GetController() cache.Controller { return v }

// Run waits until stop is closed. The view is moved by its host.
func (v *View) Run(stop <-chan struct{}) { <-stop }

// RunWithContext waits until ctx ends. The view is moved by its host.
func (v *View) RunWithContext(ctx context.Context) { <-ctx.Done() }

// HasSynced tells whether the view has listed.
func (v *View) HasSynced() bool { return v.synced.Load() }

// HasSyncedChecker is done when HasSynced is true.
func (v *View) HasSyncedChecker() cache.DoneChecker { return syncChecker{v} }

// LastSyncResourceVersion is the revision that the view has come to.
func (v *View) LastSyncResourceVersion() string { return v.revision }

// SetWatchErrorHandler does nothing: there is no watch that could fail.
func (v *View) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext does nothing: there is no watch that could fail.
func (v *View) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error { return nil }

// SetTransform has f change a copy of each object before it comes into the view. It fails once the view has listed. An
// error of f panics.
func (v *View) SetTransform(f cache.TransformFunc) error {
	if v.synced.Load() {
		return fmt.Errorf("informer has already started")
	}
	v.transform = f
	return nil
}

// IsStopped returns false.
func (v *View) IsStopped() bool { return false }

// syncChecker tells when a view has listed.
type syncChecker struct{ view *View }

// Name names what is waited for.
func (c syncChecker) Name() string {
	return c.view.component.Name() + " cache " + c.view.table.kind.resource
}

// Done is closed when the view has listed.
func (c syncChecker) Done() <-chan struct{} { return c.view.done }
