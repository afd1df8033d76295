package fake

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// What the server does to its objects by its own hand. It is no request: no rule is asked, and no trace is left but the
// commit.

// AfterCommit calls f after each commit from now on, as OnCommit does, but when all hooks of OnCommit have been told of it. f
// may do more by the server's own hand: Install, Uninstall, Amend, Empty. The commits that this leads to are told of, and
// followed, before it returns: so hooks see causes before effects, and whoever wrote finds all of it done.
func (s *Server) AfterCommit(f func(Commit)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.afterCommit = append(s.afterCommit[:len(s.afterCommit):len(s.afterCommit)], f)
}

// UpdateStored puts another object in the place of one. f gets the stored object, which is read-only, and returns nil where there
// is nothing to do; it is called again if somebody else wrote meanwhile. An object that is being deleted goes when nothing
// keeps it any more. The resource is named as in Commit.
func (s *Server) UpdateStored(resource, namespace, name string, f func(stored Object) Object) {
	t, key := s.table(resource), key(namespace, name)
	for {
		stored := s.lookup(t, key)
		if stored == nil {
			return
		}
		obj := f(stored)
		switch {
		case obj == nil:
			return
		case isLastUpdate(metaOf(obj), metaOf(stored)) && hasNoSpecFinalizers(obj):
			if s.commit(t, watch.Deleted, key, stored, t.kind.shallow(stored)) {
				return
			}
		case s.commit(t, watch.Modified, key, stored, obj):
			return
		}
	}
}

// DeleteAll begins the deletion of all objects of a resource, in order. Those that something keeps stay until it does not. The
// resource is named as in Commit; of an unknown one there is nothing.
func (s *Server) DeleteAll(resource string) {
	t := s.catalog.Load().table(resource)
	if t == nil {
		return
	}
	objects, _ := s.snapshot(t)
	objects.Scan(func(_ string, obj Object) bool {
		// It only fails where the object is gone already.
		_, _ = s.remove(t.kind, obj.GetNamespace(), obj.GetName(), metav1.DeleteOptions{})
		return true
	})
}

// Count returns how many objects of a resource there are. It leaves no trace. The resource is named as in Commit; of an
// unknown one there is none.
func (s *Server) Count(resource string) int {
	t := s.catalog.Load().table(resource)
	if t == nil {
		return 0
	}
	return s.count(t)
}

// Timestamp is the world's time as the API carries it: whole seconds, UTC.
func (s *Server) Timestamp() metav1.Time { return s.timestamp() }
