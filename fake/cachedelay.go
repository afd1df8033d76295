package fake

import (
	"slices"

	"github.com/volsim/volsim/sim"
)

// DelayCache makes a component begin with an old list of a resource, as it was so many events ago: what happens to a controller
// that starts again and is answered by a server whose watch cache is behind. It is called before the component's view of
// the resource first lists; the events since then follow, one a step. Where fewer events are remembered, the list is from
// before the oldest of them. The resource is named as in Commit; an unknown one panics.
func (s *Server) DelayCache(c *sim.Process, resource string, events int) {
	s.Informers(c)
	s.hooks.Lock()
	defer s.hooks.Unlock()
	f := s.factories[c]
	if f.lag == nil {
		f.lag = map[*table]int{}
	}
	f.lag[s.table(resource)] = events
}

// BreakWatch ends a component's watch of a resource: with its next step its view lists again, so that it never hears of what was
// there only between. It reports whether the component has a view of the resource that is behind; otherwise nothing is
// changed. The resource is named as in Commit; an unknown one panics.
func (s *Server) BreakWatch(c *sim.Process, resource string) bool {
	v := s.viewOf(c, s.table(resource))
	if v == nil || !v.behind() {
		return false
	}
	v.broken = true
	c.Wake()
	return true
}

// PendingEvents is how many events a component has yet to hear of a resource, as far as they concern its view; 0 where it has
// none. The resource is named as in Commit; an unknown one panics.
func (s *Server) PendingEvents(c *sim.Process, resource string) int {
	v := s.viewOf(c, s.table(resource))
	if v == nil || !v.behind() {
		return 0
	}
	return int(v.table.log.end.Load() - v.position)
}

// CachedResources names the resources of which a component has views, sorted.
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

// StaleObject is an object that is not, in the cache of a component, as it is stored.
type StaleObject struct {
	Object string // as in the name of an action: "persistentvolumeclaims/default/data"
	Cached Object // nil: it is not in the cache
	Stored Object // nil: it is not there any more, or the cache is not about it
}

// StaleObjects returns the objects of a resource of which a component has yet to hear something that concerns its view, in the
// order in which it will hear of them. It leaves no trace. A component without a view of the resource, or one that has not
// listed yet, is behind in nothing. The resource is named as in Commit; an unknown one panics.
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
		was, is := v.change(e)
		if was == nil && is == nil || v.match != nil && !v.match(was, is) || seen[e.name] {
			continue
		}
		seen[e.name] = true
		one := StaleObject{Object: e.name, Cached: was}
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

// behind tells whether a view that has listed has events to take in.
func (v *informer) behind() bool { return v.HasSynced() && v.ready() }

// stateBefore reads the resource as it was some events ago, and returns how it was, the position in the log, and the revision.
func (s *Server) stateBefore(t *table, events int) (objects *objectMap, position, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position = max(t.log.first, t.log.end.Load()-int64(events))
	objects = t.objects.Copy()
	since := t.log.events[position-t.log.first:]
	t.undo(objects, since)
	revision = s.revision
	if len(since) > 0 {
		revision = since[0].revision - 1
	}
	return objects, position, revision
}
