package fake

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// This file has writes of the server itself. They are not requests: no rule applies, and only the
// commit is traced.

// AfterCommit registers f to be called after each commit from now on, when all hooks of OnCommit
// have been called. f may write through the server: Install, Uninstall, UpdateStored, DeleteAll.
// The hooks of these commits run before f returns. Hooks therefore see causes before effects, and a
// writer's call returns only after all of them.
func (s *Server) AfterCommit(f func(Commit)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.afterCommit = append(s.afterCommit[:len(s.afterCommit):len(s.afterCommit)], f)
}

// UpdateStored replaces one object. f gets the stored object, which is read-only, and returns the
// new one, or nil for no change. It is called again if another writer was faster. An object that is
// being deleted is removed when it has no finalizers any more. The resource is named as in Commit.
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

// DeleteAll begins the deletion of all objects of a resource, in order. Objects with finalizers
// stay until these are removed. The resource is named as in Commit; an unknown one has no objects.
func (s *Server) DeleteAll(resource string) {
	t := s.catalog.Load().table(resource)
	if t == nil {
		return
	}
	objects, _ := s.snapshot(t)
	objects.Scan(func(_ string, obj Object) bool {
		// It fails only if the object was removed meanwhile.
		_, _ = writer{Server: s}.remove(t.kind, obj.GetNamespace(), obj.GetName(), metav1.DeleteOptions{}, nil)
		return true
	})
}

// Count returns the number of objects of a resource. It is not traced. The resource is named as in
// Commit; an unknown one has no objects.
func (s *Server) Count(resource string) int {
	t := s.catalog.Load().table(resource)
	if t == nil {
		return 0
	}
	return s.count(t)
}

// Timestamp returns the time of the world as the API carries it: whole seconds, UTC.
func (s *Server) Timestamp() metav1.Time { return s.timestamp() }
