package fake

import (
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A MetadataWatcher is a process's watch of all resources, including custom ones that are added
// later. It passes on the changes that match a filter. It skips other changes without a scheduling
// step, and retains only objects that it passed on.
//
// The process's host delivers the changes, as for an informer. The first step, if needed, is a
// list; each further step is one change. Until a resource has had a matching change, one task
// delivers the changes of all such resources in order of revision. From then on the resource has
// its own task, and its own delay. The process's workers start after the list.
//
// Its methods may be called by the process's tasks, and before the host starts.
type MetadataWatcher struct {
	server  *Server
	process *sim.Process
	match   func(kind schema.GroupVersionKind, old, obj metav1.Object) bool
	handle  func(kind schema.GroupVersionKind, old, obj metav1.Object)

	catalog *catalog // the catalog of the tracks
	tracks  []*track // in discovery order
	synced  atomic.Bool
}

// A track is the state of one resource in a metadata watcher.
type track struct {
	table    *table
	kind     *kind
	listed   bool
	hasTask  bool              // it has its own task
	position int64             // in the log
	known    map[string]Object // by key: objects that were passed on; nil: none
}

// remember records that an object was passed on.
func (t *track) remember(key string, obj Object) {
	if t.known == nil {
		t.known = map[string]Object{}
	}
	t.known[key] = obj
}

// MetadataWatcher returns a watcher of all resources for a process.
func (s *Server) MetadataWatcher(c *sim.Process) *MetadataWatcher {
	return &MetadataWatcher{server: s, process: c}
}

// Follow starts the watch; it must be called once. handle is called for each change that matches.
// old is nil for a new object, obj for a removed one; both are nil when a resource of the kind is
// added. The objects are the stored ones: read-only. match is the filter. It is called in the
// process's monitor, possibly several times for a change, and must have no effect.
//
// After dropped events, old may be older than the previous state. Two successive objects of one
// name are then passed on as a removal and an addition.
func (v *MetadataWatcher) Follow(match func(kind schema.GroupVersionKind, old, obj metav1.Object) bool,
	handle func(kind schema.GroupVersionKind, old, obj metav1.Object),
) {
	v.match, v.handle = match, handle
	v.server.hooks.Lock()
	v.server.metadataWatchers = append(slices.Clone(v.server.metadataWatchers), v.process)
	v.server.hooks.Unlock()
	v.process.Delivery("metadata", v.ready, v.step)
	v.process.GateWorkers(v.HasSynced)
}

// HasSynced reports whether the watcher has listed. It is safe for concurrent use.
func (v *MetadataWatcher) HasSynced() bool { return v.synced.Load() }

// Mapping returns the resource of a kind and whether it is namespaced. ok is false if there is
// none.
func (v *MetadataWatcher) Mapping(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced, ok bool) {
	for r, k := range v.server.catalog.Load().served {
		if r.Version == kind.Version && k.gvk.GroupKind() == kind.GroupKind() {
			return r, k.namespaced, true // no two resources have one kind
		}
	}
	return schema.GroupVersionResource{}, false, false
}

// Seen returns the object of a kind with a UID as the process has seen it, or nil. It is looked up
// by name first, then by UID. Later changes of the object are passed on.
func (v *MetadataWatcher) Seen(kind schema.GroupVersionKind, namespace, name string, uid types.UID) metav1.Object {
	i := slices.IndexFunc(v.tracks, func(t *track) bool { return t.kind.gvk.GroupKind() == kind.GroupKind() })
	if i < 0 || !v.tracks[i].listed {
		return nil
	}
	t := v.tracks[i]
	if !t.kind.namespaced {
		namespace = ""
	}
	obj, _ := v.server.stateAt(t.table, t.position, key(namespace, name))
	if obj == nil || obj.GetUID() != uid {
		obj = v.search(t, uid)
	}
	if obj == nil {
		return nil
	}
	t.remember(keyOf(obj), obj)
	return obj
}

// search looks up an object by UID.
func (v *MetadataWatcher) search(t *track, uid types.UID) Object {
	var found Object
	if objects, ok := v.server.allAt(t.table, t.position); ok {
		objects.Scan(func(_ string, obj Object) bool {
			if obj.GetUID() == uid {
				found = obj
			}
			return found == nil
		})
	}
	return found
}

// ready reports whether a resource without its own task has a matching change.
func (v *MetadataWatcher) ready() bool {
	v.renew()
	concerned := false
	for _, t := range v.tracks {
		switch {
		case t.hasTask:
		case !t.listed:
			concerned = v.listMatches(t) || concerned
		default:
			_, found := v.pending(t)
			concerned = concerned || found != readNothing
		}
	}
	if !concerned && !v.synced.Load() {
		v.synced.Store(true)
		v.process.Wake() // its gate may be open now
	}
	return concerned
}

// renew adds and removes tracks as resources are added and removed.
func (v *MetadataWatcher) renew() {
	catalog := v.server.catalog.Load()
	if catalog == v.catalog {
		return
	}
	v.catalog = catalog
	seen := make(map[*table]bool, len(catalog.kinds))
	more := make([]track, len(catalog.kinds))
	for i, k := range catalog.kinds {
		t := catalog.table(k.id)
		if k.base != nil || seen[t] {
			continue // another form or version of a stored resource
		}
		seen[t] = true
		if old := slices.IndexFunc(v.tracks, func(old *track) bool { return old.table == t }); old >= 0 {
			v.tracks[old].kind = k
			continue
		}
		v.server.addReader(t, reader{v.process, v.process})
		more[i] = track{table: t, kind: k}
		v.tracks = append(v.tracks, &more[i])
	}
	v.tracks = slices.DeleteFunc(v.tracks, func(t *track) bool {
		return catalog.table(t.kind.id) != t.table && !t.hasTask && t.position == t.table.log.end.Load()
	})
}

// listMatches reports whether an object of a list matches. If not, the list counts as seen.
func (v *MetadataWatcher) listMatches(t *track) bool {
	position := t.table.log.end.Load()
	concerned := v.synced.Load() && v.match(t.kind.gvk, nil, nil)
	if !concerned && v.server.count(t.table) > 0 {
		objects, _ := v.server.snapshot(t.table)
		objects.Scan(func(_ string, obj Object) bool {
			concerned = v.match(t.kind.gvk, nil, obj)
			return !concerned
		})
	}
	if !concerned {
		t.listed, t.position = true, position
	}
	return concerned
}

// place takes snapshots of the resources that have not listed.
func (v *MetadataWatcher) place() (tracks []*track, objects [][]Object) {
	for _, t := range v.tracks {
		if t.listed {
			continue
		}
		t.listed = true
		tracks = append(tracks, t)
		objects = append(objects, v.snapshot(t))
	}
	v.synced.Store(true)
	return tracks, objects
}

// snapshot returns the objects of a resource, and moves the track to the end of the log.
func (v *MetadataWatcher) snapshot(t *track) []Object {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	t.position = t.table.log.end.Load()
	return t.table.objects.Copy().Values()
}

// step lists, or passes on the oldest matching change.
func (v *MetadataWatcher) step() {
	if slices.ContainsFunc(v.tracks, func(t *track) bool { return !t.listed }) {
		v.list()
		return
	}
	var oldest *track
	var first event
	for _, t := range v.tracks {
		if t.hasTask {
			continue
		}
		e, found := v.pending(t)
		switch {
		case found == readTooOld:
			v.relist(t)
			return
		case found == readEvent && (oldest == nil || e.revision < first.revision):
			oldest, first = t, e
		}
	}
	v.handleEvent(oldest, first)
	v.split(oldest)
}

// split gives a resource its own task.
func (v *MetadataWatcher) split(t *track) {
	t.hasTask = true
	v.process.Delivery("metadata "+t.kind.resource, func() bool {
		_, found := v.pending(t)
		return found != readNothing
	}, func() {
		if e, found := v.pending(t); found == readTooOld {
			v.relist(t)
		} else {
			v.handleEvent(t, e)
		}
	})
}

// pending returns the next matching event, and skips those before.
func (v *MetadataWatcher) pending(t *track) (event, reading) {
	for t.position < t.table.log.end.Load() {
		e, found := v.server.read(t.table, t.position)
		if found != readEvent {
			return event{}, found
		}
		if old, obj := e.change(); v.match(t.kind.gvk, old, obj) {
			return *e, readEvent
		}
		t.position++
		if e.kind == watch.Deleted {
			delete(t.known, keyOf(e.object))
		}
	}
	return event{}, readNothing
}

// change returns the object before and after an event.
func (e event) change() (old, obj metav1.Object) {
	switch e.kind {
	case watch.Added:
		return nil, e.object
	case watch.Deleted:
		return e.object, nil
	default:
		return e.previous, e.object
	}
}

// handleEvent passes on one event.
func (v *MetadataWatcher) handleEvent(t *track, e event) {
	t.position++
	if e.kind == watch.Deleted {
		delete(t.known, keyOf(e.object))
	} else {
		t.remember(keyOf(e.object), e.object)
	}
	old, obj := e.change()
	v.handle(t.kind.gvk, old, obj)
	v.process.Record(
		trace.Action{Kind: trace.KindDeliver, Verb: string(e.kind), Object: e.name}, trace.Outcome{Detail: e.detail})
}

// list passes on the objects of the resources that have not listed, and the resources themselves.
func (v *MetadataWatcher) list() {
	later := v.synced.Load()
	n := 0
	tracks, objects := v.place()
	for i, t := range tracks {
		if later && v.match(t.kind.gvk, nil, nil) {
			v.handle(t.kind.gvk, nil, nil)
		}
		n += v.handleList(t, objects[i])
	}
	v.noteList("*", n)
}

// relist replaces events that were dropped.
func (v *MetadataWatcher) relist(t *track) {
	v.noteList(t.kind.resource, v.handleList(t, v.snapshot(t)))
}

// handleList passes on the differences between a list and the known objects, removals first. It
// returns their number.
func (v *MetadataWatcher) handleList(t *track, objects []Object) (handled int) {
	handle := func(old, obj metav1.Object) {
		if v.match(t.kind.gvk, old, obj) {
			v.handle(t.kind.gvk, old, obj)
			handled++
		}
	}
	uids := make(map[string]types.UID, len(objects))
	for _, obj := range objects {
		uids[keyOf(obj)] = obj.GetUID()
	}
	for _, k := range slices.Sorted(maps.Keys(t.known)) {
		if old := t.known[k]; uids[k] != old.GetUID() {
			delete(t.known, k)
			handle(old, nil)
		}
	}
	for _, obj := range objects {
		before := handled
		if old, ok := t.known[keyOf(obj)]; ok {
			handle(old, obj)
		} else {
			handle(nil, obj)
		}
		if handled > before {
			t.remember(keyOf(obj), obj)
		}
	}
	return handled
}

func (v *MetadataWatcher) noteList(resource string, n int) {
	v.process.Record(
		trace.Action{Kind: trace.KindDeliver, Verb: "LIST", Object: resource},
		trace.Outcome{Detail: strconv.Itoa(n) + " items rv=" + formatRevision(v.server.Revision())})
}

// wakeMetadataWatchers wakes the metadata watchers after resources were added or removed.
func (s *Server) wakeMetadataWatchers() {
	s.hooks.RLock()
	watchers := s.metadataWatchers
	s.hooks.RUnlock()
	for _, c := range watchers {
		c.Wake()
	}
}
