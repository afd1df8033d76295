package fake

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim"
)

// An objectMap has objects by key, in order. Copying one is free.
type objectMap = btree.Map[string, Object]

// A table is the state of one resource. Stored objects are immutable.
type table struct {
	kind *kind // of a custom resource: its first kind; the catalog has the present one

	// Guarded by Server.mu.
	objects objectMap // by key
	log     eventLog
	readers []reader      // informers of this resource
	changed chan struct{} // closed at the next commit; nil without waiters

	generation  int64   // of a custom resource's definition
	definedFrom []int64 // positions of the log at which the definition changed
}

// A reader is an informer's entry in a table.
type reader struct {
	process *sim.Process
	events  interface{ Wake() } // what delivers them
}

// keyOf returns the key of an event's object.
func (t *table) keyOf(e *event) string { return e.name[len(t.kind.resource)+1:] }

// lookup returns the stored object, or nil.
func (s *Server) lookup(t *table, key string) Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, _ := t.objects.Get(key)
	return obj
}

// count returns the number of objects of the resource.
func (s *Server) count(t *table) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return t.objects.Len()
}

// closed reports whether the resource was removed.
func (s *Server) closed(t *table) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return t.log.ended
}

// snapshot returns the present state of the resource, and the revision. The map belongs to the
// caller.
func (s *Server) snapshot(t *table) (objectMap, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *t.objects.Copy(), s.revision
}

// snapshotAt returns the state of the resource at a revision. The bool is false if events since
// then were dropped. The map belongs to the caller. The cost grows with the number of events since.
func (s *Server) snapshotAt(t *table, revision int64) (*objectMap, bool) {
	s.mu.Lock()
	objects := t.objects.Copy()
	events, ok := t.log.after(revision)
	s.mu.Unlock()
	if !ok {
		return nil, false
	}
	t.undo(objects, events)
	return objects, true
}

// undo restores the state of objects before the events.
func (t *table) undo(objects *objectMap, events []event) {
	for _, e := range slices.Backward(events) {
		if k := t.keyOf(&e); e.previous == nil {
			objects.Delete(k)
		} else {
			objects.Set(k, e.previous)
		}
	}
}

// commit makes a change, and returns false if the object has changed since the writer read it
// (before; nil: absent), or if the resource was removed. after becomes the store's, with the
// revision as its resourceVersion; for a deletion it is the last state. Readers are woken and hooks
// called before commit returns.
func (s *Server) commit(t *table, kind watch.EventType, key string, before, after Object) bool {
	return s.commitNamed(t, kind, key, "", before, after, sizeOf(after))
}

// commitNamed is commit for an object of a known size. name is the name of the event, if it is that:
// the resource and the key.
func (s *Server) commitNamed(t *table, kind watch.EventType, key, name string, before, after Object, size int) bool {
	if resource, rest, _ := strings.Cut(name, "/"); resource != t.kind.resource || rest != key {
		name = t.kind.resource + "/" + key
	}
	s.mu.Lock()
	if stored, _ := t.objects.Get(key); stored != before || t.log.ended {
		s.mu.Unlock()
		return false
	}
	s.revision++
	revision := s.revision
	detail := detailOf(revision)
	after.SetResourceVersion(detail[len(detailPrefix):])
	if kind == watch.Deleted {
		t.objects.Delete(key)
	} else {
		t.objects.Set(key, after)
	}
	e := event{
		kind: kind, name: name, object: after, previous: before, revision: revision,
		detail: detail, size: size,
	}
	if s.history.age > 0 {
		e.at = s.now().UnixNano()
	}
	t.log.append(e)
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	readers := t.readers
	s.mu.Unlock()

	for _, r := range readers {
		r.events.Wake()
	}
	if s.access != nil && slices.Contains(s.access.tables[:], t) {
		s.wakeRefused()
	}
	s.hooks.RLock()
	hooks, follow := s.onCommit, s.afterCommit
	s.hooks.RUnlock()
	made := Commit{Resource: t.kind.id, Type: kind, Before: before, After: after, Revision: revision}
	for _, f := range hooks {
		f(made)
	}
	for _, f := range follow {
		f(made)
	}
	return true
}

// read returns the event at a position of the log.
func (s *Server) read(t *table, position int64) (*event, reading) {
	if e, found := t.log.read(position); found != readNothing {
		return e, found
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t.log.ended && position >= t.log.end.Load() {
		return nil, readTooOld
	}
	return nil, readNothing
}

// caughtUp returns the revision that a reader at a position has seen everything up to. The bool is
// false if there are more events.
func (s *Server) caughtUp(t *table, position int64) (int64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.revision, t.log.end.Load() <= position
}

// compacted returns the revision of the last event that was dropped.
func (s *Server) compacted(t *table) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return t.log.compacted
}

// wait returns a channel that is closed at the next commit to the resource. It is closed already if
// the log has passed position.
func (s *Server) wait(t *table, position int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.log.end.Load() > position || t.log.ended {
		done := make(chan struct{})
		close(done)
		return done
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// readersMin is the capacity of the readers of a resource with its first one. A control plane has
// several for most resources.
const readersMin = 8

// addReader registers an informer of the resource.
func (s *Server) addReader(t *table, r reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.readers == nil {
		kept, _ := reuse.Get[[readersMin]reader](r.process.Reuse())
		t.readers = kept[:0]
	}
	t.readers = append(t.readers, r) // a commit in progress has the slice up to here
}

// removeReader removes a process from the readers of a resource.
func (s *Server) removeReader(t *table, c *sim.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.readers = slices.DeleteFunc(slices.Clone(t.readers), func(r reader) bool { return r.process == c })
}

// RemoveComponent drops the informers and the metadata watcher of a process that has stopped. A new
// process, even with the same name, starts without any.
func (s *Server) RemoveComponent(c *sim.Process) {
	for _, t := range s.catalog.Load().tables() {
		s.removeReader(t, c)
	}
	s.hooks.Lock()
	defer s.hooks.Unlock()
	delete(s.factories, c)
	s.metadataWatchers = slices.DeleteFunc(slices.Clone(s.metadataWatchers),
		func(r *sim.Process) bool { return r == c })
}

// stateAt returns an object, or nil, as of a position of the log. The bool is false if events since
// then were dropped.
func (s *Server) stateAt(t *table, position int64, key string) (Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if position < t.log.first {
		return nil, false
	}
	for _, e := range t.log.events[position-t.log.first:] {
		if t.keyOf(&e) == key {
			return e.previous, true
		}
	}
	obj, _ := t.objects.Get(key)
	return obj, true
}

// allAt returns a resource as of a position of the log. The bool is false if events since then were
// dropped. The map belongs to the caller.
func (s *Server) allAt(t *table, position int64) (*objectMap, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if position < t.log.first {
		return nil, false
	}
	objects := t.objects.Copy()
	t.undo(objects, t.log.events[position-t.log.first:])
	return objects, true
}
