package fake

import (
	"strconv"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/internal/informercache"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// informer is what one component has seen of one resource: a cache.SharedIndexInformer that is moved by the component's
// host. Its first step is a list, and each further step takes in exactly one event; in between the view is stale. The
// step calls the handlers, in order of registration, in the component's monitor. The component's workers do not start
// before the list.
//
// The objects in it are the stored ones, shared with everybody: read-only. Handlers are added, and the view is read, by
// the component's strands or before the host starts; HasSynced and the indexer may be used from anywhere.
type informer struct {
	*informercache.Informer

	server    *Server
	table     *table
	component *sim.Process
	selector  selector                  // what the view is of; of all, mostly
	match     func(was, is Object) bool // nil: everything does; see Selection

	position int64 // in the log
	shown    *kind // of a custom resource: what is in the view is unstructured, of this version; nil: as it is stored
	lag      int   // of the first list, in events; see Server.Lag
	upTo     int64 // the position up to which it lags
	broken   bool  // the next step lists again; see Server.Break
}

// newInformer gives a component a view of a resource.
func newInformer(s *Server, t *table, of resourceFilter, c *sim.Process) *informer {
	v := &informer{
		Informer: informercache.New(c.Name() + " cache " + t.kind.resource),
		server:   s, table: t, selector: of.selector, match: of.match, component: c,
	}
	s.addReader(t, reader{c, c.LaggingDelivery("cache "+t.kind.resource, v.ready, v.late, v.step)})
	c.GateWorkers(v.HasSynced)
	return v
}

// ready tells whether there is something to take in. Events that a selective view does not see are passed over here: a
// server would not send them. What does not concern the component is taken in here, too, and nobody hears of it.
func (v *informer) ready() bool {
	if !v.HasSynced() {
		return v.match == nil || !v.listQuietly()
	}
	for v.position < v.table.log.end.Load() {
		if v.selector.all() && v.match == nil {
			return true
		}
		e, found := v.server.read(v.table, v.position)
		if found != readEvent {
			return true
		}
		was, is := v.change(e)
		if (was != nil || is != nil) && (v.match == nil || v.match(was, is)) {
			return true
		}
		v.position++
		v.take(e, false)
	}
	return false
}

// late tells whether the view lags behind by what happened before it listed.
func (v *informer) late() bool { return v.position < v.upTo && v.HasSynced() }

// listQuietly lists if nothing in the list concerns the component, and tells whether it did.
func (v *informer) listQuietly() bool {
	lag := v.lag
	all, revision := v.snapshot()
	for _, obj := range all {
		if v.match(nil, obj.(Object)) {
			v.lag, v.upTo = lag, 0
			return false
		}
	}
	v.Fill(all, revision)
	v.component.Wake() // its gate may be open now
	return true
}

// change is what an event is to the view: was is nil for what comes into it, is for what leaves it.
func (v *informer) change(e *event) (was, is Object) {
	if old, had := v.Get(v.table.keyOf(e)); had {
		was = old.(Object)
	}
	if e.kind != watch.Deleted && v.selector.matches(e.object) {
		is = e.object
	}
	return was, is
}

// step lists, or takes in one event.
func (v *informer) step() {
	if !v.HasSynced() {
		v.list()
		return
	}
	e, found := v.server.read(v.table, v.position)
	if v.broken {
		v.broken, found = false, readTooOld
	}
	switch found {
	case readTooOld:
		v.list()
	case readEvent:
		v.position++
		kind := v.take(e, true)
		v.component.Record(
			trace.Action{Kind: trace.KindDeliver, Verb: string(kind), Object: e.name}, trace.Outcome{Detail: e.detail})
	}
}

func (v *informer) list() {
	all, revision := v.snapshot()
	v.Replace(all, revision)
	v.component.Record(
		trace.Action{Kind: trace.KindDeliver, Verb: "LIST", Object: v.table.kind.resource},
		trace.Outcome{Detail: strconv.Itoa(v.Len()) + " items rv=" + revision})
}

// take brings the view up to one event, tells the handlers if they are to hear of it, and returns what the event is to the
// view: an object that leaves a selection is deleted there, one that comes into it is added.
func (v *informer) take(e *event, heard bool) watch.EventType {
	key, revision := v.table.keyOf(e), e.detail[len(detailPrefix):]
	if e.kind == watch.Deleted || !v.selector.matches(e.object) {
		v.Remove(key, v.transformed(e.object), revision, heard)
		return watch.Deleted
	}
	return v.Put(key, v.transformed(e.object), revision, heard)
}

// snapshot reads the resource as it is now, and puts the view behind it in the log.
func (v *informer) snapshot() (all []any, revision string) {
	objects, position, at := v.server.stateBefore(v.table, v.lag)
	if v.lag > 0 {
		v.upTo, v.lag = v.table.log.end.Load(), 0
	}
	v.position = position
	if v.selector.all() {
		all = make([]any, 0, objects.Len())
	}
	v.selector.scan(objects, "", func(_ string, obj Object) bool {
		all = append(all, v.transformed(obj))
		return true
	})
	return all, formatRevision(at)
}

// transformed is what the view keeps of an object.
func (v *informer) transformed(obj Object) any {
	if v.shown != nil {
		u, err := untyped(v.shown.fromStored(obj), v.shown.gvk)
		must(err)
		return v.Transform(u)
	}
	return v.Transform(obj)
}

func keyOf(obj any) string {
	o := obj.(Object)
	return key(o.GetNamespace(), o.GetName())
}

func must(err error) {
	if err != nil {
		panic(err) // what is stored can be shown
	}
}
