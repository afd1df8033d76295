package fake

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

var errNameRequired = errors.New("name is required")

// An untypedRoute is the target of the requests of an untyped client. It is resolved at each
// request, because custom resources are added and removed.
type untypedRoute struct {
	c         *Clientset
	resource  schema.GroupVersionResource
	namespace string
}

// all returns the client for requests about several objects.
func (w untypedRoute) all() (ResourceClient, error) {
	r, ok := w.c.Resource(w.resource, w.namespace)
	if !ok || w.namespace != "" && !r.kind.namespaced {
		return r, notFound()
	}
	return r, nil
}

// collection returns the client for creations, which need a namespace.
func (w untypedRoute) collection() (ResourceClient, error) {
	r, err := w.all()
	if err == nil && r.kind.namespaced && w.namespace == "" {
		return r, notAllowed()
	}
	return r, err
}

// object returns the client for requests about one object, and the remaining subresource.
func (w untypedRoute) object(name string, sub []string) (ResourceClient, []string, error) {
	if name == "" {
		return ResourceClient{}, nil, errNameRequired
	}
	r, err := w.all()
	switch {
	case err != nil:
		return r, sub, err
	case r.kind.namespaced && w.namespace == "":
		return r, sub, notFound()
	case len(sub) == 1 && sub[0] == "scale":
		scale, ok := r.Scale()
		if !ok {
			return r, sub, notFound()
		}
		return scale, nil, nil
	}
	return r, sub, nil
}

// readable returns an error unless a subresource can be read. /status and /ephemeralcontainers can: they are the whole object.
func (r ResourceClient) readable(sub []string) error {
	if len(sub) == 0 || len(sub) == 1 && (sub[0] == string(statusSubresource) && r.kind.copyStatus != nil ||
		sub[0] == string(ephemeralSubresource) && r.kind.id == "pods") {
		return nil
	}
	return notFound()
}

// body returns an empty body of an action.
func (r ResourceClient) body(sub []string) (runtime.Object, error) {
	if len(sub) != 1 {
		return nil, notFound()
	}
	a, ok := r.kind.actions[sub[0]]
	if !ok {
		return nil, notFound()
	}
	return clientscheme.Scheme.New(a.gvk)
}

// notAllowed returns the error about a verb that a path does not support.
func notAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, true)
}
