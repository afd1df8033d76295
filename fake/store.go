package fake

import (
	"slices"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/sim"
)

// objectMap holds objects by key, in order. Copying one costs nothing.
type objectMap = btree.Map[string, Object]

// table is what the store holds of one resource. Stored objects are never changed.
type table struct {
	kind *kind // of a custom resource: the one it had first; see catalog for the present one

	// Guarded by Server.mu.
	objects objectMap // by key
	log     eventLog
	readers []reader      // who has a view of this resource
	changed chan struct{} // closed at the next commit; nil when nobody waits
}

// reader is a component that has a view of a resource.
type reader struct {
	component *sim.Process
	wake      func() // tells it that there is an event
}

// keyOf is the key of an event's object.
func (t *table) keyOf(e *event) string { return e.name[len(t.kind.resource)+1:] }

// lookup returns the stored object, or nil.
func (s *Server) lookup(t *table, key string) Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, _ := t.objects.Get(key)
	return obj
}

// count returns how many objects there are of the resource.
func (s *Server) count(t *table) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return t.objects.Len()
}

// snapshot returns the resource as it is now, and the revision. The map is the caller's.
func (s *Server) snapshot(t *table) (*objectMap, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.objects.Copy(), s.revision
}

// snapshotAt returns the resource as it was at a revision, and false if the events since then are not all there. The map
// is the caller's. The work grows with the number of events since.
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

// undo takes objects back to before the events.
func (t *table) undo(objects *objectMap, events []event) {
	for _, e := range slices.Backward(events) {
		if k := t.keyOf(&e); e.previous == nil {
			objects.Delete(k)
		} else {
			objects.Set(k, e.previous)
		}
	}
}

// commit makes a change, unless the object is not as its writer found it (before; nil: absent) any more. after is the
// store's from then on, and gets the revision as its resourceVersion; for a deletion it is the last state. Readers and
// hooks are told before it returns.
func (s *Server) commit(t *table, kind watch.EventType, key string, before, after Object) bool {
	s.mu.Lock()
	if stored, _ := t.objects.Get(key); stored != before {
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
	e := event{kind: kind, name: t.kind.resource + "/" + key, object: after, previous: before, revision: revision, detail: detail}
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
		r.wake()
	}
	s.hooks.RLock()
	hooks, follow := s.onCommit, s.afterCommit
	s.hooks.RUnlock()
	told := Commit{Resource: t.kind.id, Type: kind, Before: before, After: after, Revision: revision}
	for _, f := range hooks {
		f(told)
	}
	for _, f := range follow {
		f(told)
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

// caughtUp returns the revision up to which a reader at a position has been told everything, and false if there is more to
// be told.
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

// wait returns a channel that is closed at the next commit to the resource, or at once if the log has passed position.
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

// addReader registers a component that has a view of the resource.
func (s *Server) addReader(t *table, r reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.readers = append(t.readers, r) // what a commit has of it ends before
}

// removeReader takes a component out of the readers of a resource.
func (s *Server) removeReader(t *table, c *sim.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.readers = slices.DeleteFunc(slices.Clone(t.readers), func(r reader) bool { return r.component == c })
}

// RemoveComponent lets go of a component that has stopped: its views and its survey are moved no more, and nothing wakes it.
// Another component, which may have its name, starts with none.
func (s *Server) RemoveComponent(c *sim.Process) {
	for _, t := range s.catalog.Load().tables() {
		s.removeReader(t, c)
	}
	s.hooks.Lock()
	defer s.hooks.Unlock()
	delete(s.factories, c)
	s.metadataWatchers = slices.DeleteFunc(slices.Clone(s.metadataWatchers), func(r *sim.Process) bool { return r == c })
}

// stateAt returns an object as it was at a position of the log, or nil, and false if that cannot be known any more.
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

// allAt returns a resource as it was at a position of the log, and false if that cannot be known any more. The map is the
// caller's.
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
