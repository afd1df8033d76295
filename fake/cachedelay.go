package fake

import (
	"slices"

	"github.com/volsim/volsim/sim"
)

// DelayCache makes a process's first list of a resource as old as a number of events. This is what
// a restarted controller may get from a server whose watch cache lags. It must be called before the
// process's informer of the resource lists. The later events follow, one per step. If the log has
// fewer events, the list is from before the oldest of them. The resource is named as in Commit; an
// unknown one panics.
func (s *Server) DelayCache(c *sim.Process, resource string, events int) {
	s.Informers(c)
	s.hooks.Lock()
	defer s.hooks.Unlock()
	f := s.factories[c]
	if f.delays == nil {
		f.delays = map[*table]int{}
	}
	f.delays[s.table(resource)] = events
}

// BreakWatch ends a process's watch of a resource. With its next step the informer lists again, and
// misses objects that existed only in between. It reports whether the process has an informer of
// the resource that is behind; otherwise nothing changes. The resource is named as in Commit; an
// unknown one panics.
func (s *Server) BreakWatch(c *sim.Process, resource string) bool {
	v := s.viewOf(c, s.table(resource))
	if v == nil || !v.behind() {
		return false
	}
	v.broken = true
	c.Wake()
	return true
}

// PendingEvents returns the number of events of a resource that are not delivered to a process's
// informer, or 0 without an informer. Events that the informer's filter drops do not count. The
// resource is named as in Commit; an unknown one panics.
func (s *Server) PendingEvents(c *sim.Process, resource string) int {
	v := s.viewOf(c, s.table(resource))
	if v == nil || !v.behind() {
		return 0
	}
	return int(v.table.log.end.Load() - v.position)
}

// CachedResources returns the names of the resources that a process has informers of, sorted.
func (s *Server) CachedResources(c *sim.Process) []string {
	s.hooks.RLock()
	defer s.hooks.RUnlock()
	var names []string
	if f := s.factories[c]; f != nil {
		for v := range f.all() {
			names = append(names, v.table.kind.id)
		}
	}
	slices.Sort(names)
	return names
}

// A StaleObject is an object that differs between a process's cache and the store.
type StaleObject struct {
	Object string // as in a trace action: "persistentvolumeclaims/default/data"
	Cached Object // nil: not in the cache
	Stored Object // nil: removed, or not selected by the informer
}

// StaleObjects returns the objects of a resource with undelivered events for a process's informer,
// in the order of delivery. It is not traced. A process without an informer of the resource, or
// whose informer has not listed, has no stale objects. The resource is named as in Commit; an
// unknown one panics.
func (s *Server) StaleObjects(c *sim.Process, resource string) []StaleObject {
	v := s.viewOf(c, s.table(resource))
	if v == nil || !v.behind() {
		return nil
	}
	var all []StaleObject
	seen := map[string]bool{}
	for at := v.position; at < v.table.log.end.Load(); at++ {
		e, found := s.read(v.table, at)
		if found != readEvent {
			break
		}
		old, obj := v.change(e)
		if old == nil && obj == nil || v.match != nil && !v.match(old, obj) || seen[e.name] {
			continue
		}
		seen[e.name] = true
		one := StaleObject{Object: e.name, Cached: old}
		if now := s.lookup(v.table, v.table.keyOf(e)); now != nil && v.selector.matches(now) {
			one.Stored = now
		}
		all = append(all, one)
	}
	return all
}

func (s *Server) viewOf(c *sim.Process, t *table) *informer {
	s.hooks.RLock()
	defer s.hooks.RUnlock()
	if f := s.factories[c]; f != nil {
		for v := range f.all() {
			if v.table == t {
				return v
			}
		}
	}
	return nil
}

// behind reports whether an informer that has listed has events to deliver.
func (v *informer) behind() bool { return v.HasSynced() && v.ready() }

// stateBefore returns a resource as it was before the last events, with the position in the log and
// the revision.
func (s *Server) stateBefore(t *table, events int) (objects objectMap, position, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position = max(t.log.first, t.log.end.Load()-int64(events))
	objects = *t.objects.Copy()
	since := t.log.events[position-t.log.first:]
	t.undo(&objects, since)
	revision = s.revision
	if len(since) > 0 {
		revision = since[0].revision - 1
	}
	return objects, position, revision
}
