package histories

import "github.com/volsim/volsim/fake"

// Stored returns a copy of a stored object.
func Stored[T fake.Object](server *fake.Server, resource, namespace, name string) (T, bool) {
	obj, ok := server.Get(resource, namespace, name)
	if !ok {
		var none T
		return none, false
	}
	return obj.DeepCopyObject().(T), true
}
