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

// MetadataWatcher is what one component has seen of the objects of all resources, custom ones that come later included, as far as
// they concern it. What does not is passed over without a step of the host, so that a survey costs a world nothing where
// there is nothing for it. It keeps no objects but those that its follower was told of.
//
// Like a view it is moved by the component's host: its first step, if there is need of one, lists, and each further step
// takes in one change. Until something of a resource has concerned it, the survey has one strand for all and takes in
// changes in the order of their revisions; from then on the resource has a strand of its own, and may be further behind
// than others, or less. The component's workers do not start before the list.
//
// Its methods are for the component's strands, and for before the host starts.
type MetadataWatcher struct {
	server    *Server
	component *sim.Process
	match     func(kind schema.GroupVersionKind, was, is metav1.Object) bool
	take      func(kind schema.GroupVersionKind, was, is metav1.Object)

	catalog *catalog // that the tracks were made for
	tracks  []*track // in the order of discovery
	synced  atomic.Bool
}

// track is what a survey has seen of one resource.
type track struct {
	table    *table
	kind     *kind
	listed   bool
	own      bool              // it has a strand of its own
	position int64             // in the log
	told     map[string]Object // by key: what the follower knows of; nil until there is something
}

// tell notes that the follower knows of an object.
func (t *track) tell(key string, obj Object) {
	if t.told == nil {
		t.told = map[string]Object{}
	}
	t.told[key] = obj
}

// MetadataWatcher returns a survey of all resources for a component.
func (s *Server) MetadataWatcher(c *sim.Process) *MetadataWatcher {
	return &MetadataWatcher{server: s, component: c}
}

// Follow begins the survey, once. take is called with each change that concerns tells to concern the component: was is
// nil for an object that comes, is for one that goes; both are nil when a resource of the kind comes to be served. The
// objects are the stored ones: read-only. concerns is asked in the component's monitor, maybe several times of one change,
// and may not change anything.
//
// After a gap in the log was may be older than the state before, and two objects of one name that came after each other
// are told as one that goes and one that comes.
func (v *MetadataWatcher) Follow(concerns func(kind schema.GroupVersionKind, was, is metav1.Object) bool,
	take func(kind schema.GroupVersionKind, was, is metav1.Object),
) {
	v.match, v.take = concerns, take
	v.server.hooks.Lock()
	v.server.metadataWatchers = append(slices.Clone(v.server.metadataWatchers), v.component)
	v.server.hooks.Unlock()
	v.component.Delivery("survey", v.ready, v.step)
	v.component.GateWorkers(v.HasSynced)
}

// HasSynced tells whether the survey has listed. It may be called from anywhere.
func (v *MetadataWatcher) HasSynced() bool { return v.synced.Load() }

// Mapping tells the resource that serves a kind, whether it is namespaced, and whether there is one.
func (v *MetadataWatcher) Mapping(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced, ok bool) {
	for r, k := range v.server.catalog.Load().served {
		if r.Version == kind.Version && k.gvk.GroupKind() == kind.GroupKind() {
			return r, k.namespaced, true // no two resources have one kind
		}
	}
	return schema.GroupVersionResource{}, false, false
}

// Seen returns the object of a kind with a UID as the component has seen it, or nil. It is looked for under the name, and
// then among all of the kind. The follower is told what becomes of it.
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
	t.tell(keyOf(obj), obj)
	return obj
}

// search looks through all that the component has seen of a resource.
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

// ready tells whether there is something that concerns the component, in a resource that has no strand of its own.
func (v *MetadataWatcher) ready() bool {
	v.renew()
	concerned := false
	for _, t := range v.tracks {
		switch {
		case t.own:
		case !t.listed:
			concerned = v.listMatches(t) || concerned
		default:
			_, found := v.pending(t)
			concerned = concerned || found != readNothing
		}
	}
	if !concerned && !v.synced.Load() {
		v.synced.Store(true)
		v.component.Wake() // its gate may be open now
	}
	return concerned
}

// renew follows the resources that come and go.
func (v *MetadataWatcher) renew() {
	is := v.server.catalog.Load()
	if is == v.catalog {
		return
	}
	v.catalog = is
	seen := make(map[*table]bool, len(is.kinds))
	more := make([]track, len(is.kinds))
	for i, k := range is.kinds {
		t := is.table(k.id)
		if k.base != nil || seen[t] {
			continue // another way, or another version, to show what is stored
		}
		seen[t] = true
		if was := slices.IndexFunc(v.tracks, func(was *track) bool { return was.table == t }); was >= 0 {
			v.tracks[was].kind = k
			continue
		}
		v.server.addReader(t, reader{v.component, v.component.Wake})
		more[i] = track{table: t, kind: k}
		v.tracks = append(v.tracks, &more[i])
	}
	v.tracks = slices.DeleteFunc(v.tracks, func(t *track) bool {
		return is.table(t.kind.id) != t.table && !t.own && t.position == t.table.log.end.Load()
	})
}

// listMatches tells whether anything in a list would concern the component; if not, the list is taken for seen.
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

// place puts the tracks that have not listed behind what is there now, and returns them with it.
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

// snapshot reads a resource as it is now, and puts the track behind it in the log.
func (v *MetadataWatcher) snapshot(t *track) []Object {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	t.position = t.table.log.end.Load()
	return t.table.objects.Copy().Values()
}

// step lists what is to be listed, or takes in the oldest change that concerns the component.
func (v *MetadataWatcher) step() {
	if slices.ContainsFunc(v.tracks, func(t *track) bool { return !t.listed }) {
		v.list()
		return
	}
	var oldest *track
	var first event
	for _, t := range v.tracks {
		if t.own {
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
	v.accept(oldest, first)
	v.split(oldest)
}

// split gives a resource a strand of its own.
func (v *MetadataWatcher) split(t *track) {
	t.own = true
	v.component.Delivery("survey "+t.kind.resource, func() bool {
		_, found := v.pending(t)
		return found != readNothing
	}, func() {
		if e, found := v.pending(t); found == readTooOld {
			v.relist(t)
		} else {
			v.accept(t, e)
		}
	})
}

// pending returns the next event that concerns the component, having passed over those that do not.
func (v *MetadataWatcher) pending(t *track) (event, reading) {
	for t.position < t.table.log.end.Load() {
		e, found := v.server.read(t.table, t.position)
		if found != readEvent {
			return event{}, found
		}
		if was, is := e.change(); v.match(t.kind.gvk, was, is) {
			return *e, readEvent
		}
		t.position++
		if e.kind == watch.Deleted {
			delete(t.told, keyOf(e.object))
		}
	}
	return event{}, readNothing
}

// change is an event as something that was and something that is.
func (e event) change() (was, is metav1.Object) {
	switch e.kind {
	case watch.Added:
		return nil, e.object
	case watch.Deleted:
		return e.object, nil
	default:
		return e.previous, e.object
	}
}

// accept takes in one event.
func (v *MetadataWatcher) accept(t *track, e event) {
	t.position++
	if e.kind == watch.Deleted {
		delete(t.told, keyOf(e.object))
	} else {
		t.tell(keyOf(e.object), e.object)
	}
	was, is := e.change()
	v.take(t.kind.gvk, was, is)
	v.component.Record(
		trace.Action{Kind: trace.KindDeliver, Verb: string(e.kind), Object: e.name}, trace.Outcome{Detail: e.detail})
}

// list takes in what there is of the resources that have not listed, and that they are served.
func (v *MetadataWatcher) list() {
	later := v.synced.Load()
	n := 0
	tracks, objects := v.place()
	for i, t := range tracks {
		if later && v.match(t.kind.gvk, nil, nil) {
			v.take(t.kind.gvk, nil, nil)
		}
		n += v.takeList(t, objects[i])
	}
	v.noteList("*", n)
}

// relist makes up for events that are not to be had any more.
func (v *MetadataWatcher) relist(t *track) {
	v.noteList(t.kind.resource, v.takeList(t, v.snapshot(t)))
}

// takeList tells the follower how a list differs from what it knows, what went first, and counts what was told.
func (v *MetadataWatcher) takeList(t *track, objects []Object) (told int) {
	tell := func(was, is metav1.Object) {
		if v.match(t.kind.gvk, was, is) {
			v.take(t.kind.gvk, was, is)
			told++
		}
	}
	is := make(map[string]types.UID, len(objects))
	for _, obj := range objects {
		is[keyOf(obj)] = obj.GetUID()
	}
	for _, k := range slices.Sorted(maps.Keys(t.told)) {
		if was := t.told[k]; is[k] != was.GetUID() {
			delete(t.told, k)
			tell(was, nil)
		}
	}
	for _, obj := range objects {
		before := told
		if was, ok := t.told[keyOf(obj)]; ok {
			tell(was, obj)
		} else {
			tell(nil, obj)
		}
		if told > before {
			t.tell(keyOf(obj), obj)
		}
	}
	return told
}

func (v *MetadataWatcher) noteList(resource string, n int) {
	v.component.Record(
		trace.Action{Kind: trace.KindDeliver, Verb: "LIST", Object: resource},
		trace.Outcome{Detail: strconv.Itoa(n) + " items rv=" + formatRevision(v.server.Revision())})
}

// wakeMetadataWatchers tells the surveys that resources came or went.
func (s *Server) wakeMetadataWatchers() {
	s.hooks.RLock()
	surveyors := s.metadataWatchers
	s.hooks.RUnlock()
	for _, c := range surveyors {
		c.Wake()
	}
}
