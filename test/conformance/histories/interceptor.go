package histories

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
)

// An Interceptor is called for each request and may answer it. Nil lets all requests pass. For
// watches it is called for each event, with verb watch; an event is not delivered if it returns an
// error.
type Interceptor func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error)

// Intercept calls the interceptor.
func (i Interceptor) Intercept(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if i == nil {
		return serve()
	}
	return i(r, serve)
}

// InterceptWatch calls the interceptor for each event.
func (i Interceptor) InterceptWatch(r fake.Request, serve func() (watch.Interface, error)) (watch.Interface, error) {
	w, err := serve()
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		_, err := i.Intercept(r, func() (runtime.Object, error) { return e.Object, nil })
		return e, err == nil
	}), nil
}

// Is reports whether a request has a verb and a resource.
func Is(r fake.Request, verb, resource string) bool {
	return r.Verb == verb && r.Resource.Resource == resource
}
