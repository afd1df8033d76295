package fake

import (
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/internal/informercache"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// An informer is a process's cache of one resource: a cache.SharedIndexInformer whose events the
// process's host delivers. The first step is a list; each further step is exactly one event. In
// between the cache is stale. A step calls the handlers, in order of registration, in the process's
// monitor. The process's workers start after the list.
//
// The objects are the stored ones: callers must not modify them. Tasks of the process, or code that
// runs before the host starts, may add handlers and read the cache. HasSynced and the indexer are
// safe for concurrent use.
type informer struct {
	informercache.Informer
	informerState

	hasSynced func() bool // HasSynced
}

// informerState is the state of an informer, apart from the cache.
type informerState struct {
	server   *Server
	table    *table
	process  *sim.Process
	selector selector                   // usually of all objects
	match    func(old, obj Object) bool // nil: every change matches; see Filter

	position    int64 // in the log
	version     *kind // of a custom resource: its objects are unstructured, in this version; nil: as stored
	delay       int   // age of the first list in events; see Server.DelayCache
	delayedUpTo int64 // the position up to which delivery is delayed
	broken      bool  // the next step lists again; see Server.BreakWatch

	user    *authenticationv1.UserInfo // see Server.SetUser; nil: system:admin
	refused int64                      // generation of the policy that does not allow to list; 0: none yet

	task   *sim.Task
	failed bool       // a webhook could not convert an object: the next step waits for retry
	retry  *sim.Timer // nil: no conversion has failed
}

// conversionRetry is the pause after a failed conversion.
const conversionRetry = time.Second

// cacheTask returns the name of the tasks that deliver to caches of a resource.
func cacheTask(resource string) string { return "cache " + resource }

// newInformer returns a process's informer of a resource.
func newInformer(s *Server, t *table, of resourceFilter, c *sim.Process) *informer {
	v, used := reuse.Get[informer](c.Reuse())
	if used {
		v.Reset(t.kind.resource)
	} else {
		v.Init(t.kind.resource)
		v.hasSynced = v.HasSynced
	}
	v.informerState = informerState{server: s, table: t, selector: of.selector, match: of.match, process: c}
	v.task = c.DeliverFrom(t.kind.cache, deliveries{v})
	v.OnRead(reads{v})
	s.addReader(t, reader{c, v.task})
	c.GateWorkers(v.hasSynced)
	return v
}

// reads are those of an informer's cache.
type reads struct{ *informer }

func (r reads) ObserveRead(key string) { r.touch(key) }

// touch informs an observer of the world of a read of the cache. Events that do not match are applied
// with the write, so such a cache is never behind with them.
func (v *informer) touch(key string) {
	if !v.process.IsObserved() {
		return
	}
	part := v.table.kind.cache
	if key != "" {
		part += "/" + key
	}
	v.process.Touch(sim.AccessRead, part)
	if v.match != nil {
		v.process.TouchWorld(sim.AccessRead, v.table.kind.resource)
	}
}

// deliveries are those of the events of an informer.
type deliveries struct{ *informer }

func (s deliveries) Ready() bool { return s.ready() }
func (s deliveries) Late() bool  { return s.late() }
func (s deliveries) Deliver()    { s.step() }

// ready reports whether there is something to deliver. It skips events that the selector does not
// select, which a server would not send. Changes that do not match are applied here, without
// calling the handlers, and wake the process, whose tasks may wait for the state of the cache.
func (v *informer) ready() bool {
	if v.failed {
		return false
	}
	if !v.HasSynced() {
		if v.refused != 0 && v.refused == v.server.access.generation() {
			return false
		}
		return v.match == nil || v.mayFill() != nil || !v.listWithoutMatches()
	}
	for v.position < v.table.log.end.Load() {
		if v.selector.all() && v.match == nil {
			return true
		}
		e, found := v.server.read(v.table, v.position)
		if found != readEvent {
			return true
		}
		old, obj := v.change(e)
		if (old != nil || obj != nil) && (v.match == nil || v.match(old, obj)) {
			return true
		}
		if _, err := v.applyEvent(e, false); err != nil {
			return true // step fails, too
		}
		v.position++
		if old != nil || obj != nil {
			v.process.Wake()
		}
	}
	return false
}

// late reports whether undelivered events are older than the list.
func (v *informer) late() bool { return v.position < v.delayedUpTo && v.HasSynced() }

// listWithoutMatches lists if no object of the list matches, and reports whether it did.
func (v *informer) listWithoutMatches() bool {
	delay := v.delay
	all, revision, err := v.snapshot()
	if err != nil {
		return false // step fails, too
	}
	for _, obj := range all {
		if v.match(nil, obj.(Object)) {
			v.delay, v.delayedUpTo = delay, 0
			return false
		}
	}
	v.Fill(all, revision)
	v.process.Wake() // its gate may be open now
	return true
}

// change returns an event's effect on the cache. old is nil for an addition, obj for a removal.
func (v *informer) change(e *event) (old, obj Object) {
	if cached, had := v.Get(v.table.keyOf(e)); had {
		old = cached.(Object)
	}
	if e.kind != watch.Deleted && v.selector.matches(e.object) {
		obj = e.object
	}
	return old, obj
}

// step lists, or delivers one event.
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
		kind, err := v.applyEvent(e, true)
		if err != nil {
			v.fail(err)
			return
		}
		v.position++
		v.process.Record(
			trace.Action{Kind: trace.KindDeliver, Verb: string(kind), Object: e.name}, trace.Outcome{Detail: e.detail})
	}
}

func (v *informer) list() {
	if err := v.mayFill(); err != nil {
		v.refused = v.server.access.generation()
		v.process.Record(trace.Action{Kind: trace.KindDeliver, Verb: "LIST", Object: v.table.kind.resource}, trace.Outcome{Err: err})
		return
	}
	all, revision, err := v.snapshot()
	if err != nil {
		v.fail(err)
		return
	}
	v.Replace(all, revision)
	v.process.Record(
		trace.Action{Kind: trace.KindDeliver, Verb: "LIST", Object: v.table.kind.resource},
		trace.Outcome{Detail: strconv.Itoa(v.Len()) + " items rv=" + revision})
}

// applyEvent applies one event to the cache, and calls the handlers if notify is set. It returns the event's type
// for the cache: an object that leaves a selection is deleted, one that enters it is added.
func (v *informer) applyEvent(e *event, notify bool) (watch.EventType, error) {
	obj := e.object
	if v.version != nil {
		shown, err := v.shown([]Object{obj})
		if err != nil {
			return "", err
		}
		obj = shown[0]
	}
	key, revision := v.table.keyOf(e), e.detail[len(detailPrefix):]
	if e.kind == watch.Deleted || !v.selector.matches(e.object) {
		v.Remove(key, v.transformed(obj), revision, notify)
		return watch.Deleted, nil
	}
	return v.Put(key, v.transformed(obj), revision, notify), nil
}

// snapshot returns the objects to list, and moves the informer to their position in the log.
func (v *informer) snapshot() (all []any, revision string, err error) {
	objects, position, at := v.server.stateBefore(v.table, v.delay)
	var selected []Object
	if v.selector.all() {
		selected = objects.Values()
	} else {
		v.selector.scan(&objects, "", func(_ string, obj Object) bool {
			selected = append(selected, obj)
			return true
		})
	}
	if selected, err = v.shown(selected); err != nil {
		return nil, "", err
	}
	if v.delay > 0 {
		v.delayedUpTo, v.delay = v.table.log.end.Load(), 0
	}
	v.position = position
	all = make([]any, len(selected))
	for i, obj := range selected {
		all[i] = v.transformed(obj)
	}
	return all, formatRevision(at), nil
}

// shown returns stored objects in the version of the cache, as it is defined now.
func (v *informer) shown(stored []Object) ([]Object, error) {
	if v.version == nil {
		return stored, nil
	}
	gvr := v.version.gvk.GroupVersion().WithResource(v.version.resource)
	if current, ok := v.server.catalog.Load().served[gvr]; ok {
		v.version = current
	}
	return v.version.show(stored)
}

// transformed returns the form of an object in the cache.
func (v *informer) transformed(shown Object) any {
	if v.version != nil {
		u, err := untyped(shown, v.version.gvk)
		must(err)
		return v.Transform(u)
	}
	return v.Transform(shown)
}

// fail notes that a webhook could not convert an object. The next step tries again, after a pause.
//
// Differs: a reflector lists again, with a random pause that grows.
func (v *informer) fail(err error) {
	v.process.Record(trace.Action{Kind: trace.KindDeliver, Verb: "ERROR", Object: v.table.kind.resource},
		trace.Outcome{Err: err})
	v.failed = true
	if v.retry == nil {
		v.retry = v.process.NewBackgroundTimer("cache "+v.table.kind.resource+" retry", func() {
			v.failed = false
			v.task.Wake()
		})
	}
	v.retry.Reset(conversionRetry)
}

func keyOf(obj any) string {
	o := obj.(Object)
	return key(o.GetNamespace(), o.GetName())
}

func must(err error) {
	if err != nil {
		panic(err) // stored objects can be converted
	}
}
