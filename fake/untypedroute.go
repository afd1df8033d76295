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

// route is where a client that knows of no types sends its requests. Whether there is such a place is found out anew at
// each request: custom resources come and go.
type route struct {
	c         *Clientset
	resource  schema.GroupVersionResource
	namespace string
}

// all is the client for what is about many objects.
func (w route) all() (ResourceClient, error) {
	r, ok := w.c.Resource(w.resource, w.namespace)
	if !ok || w.namespace != "" && !r.kind.namespaced {
		return r, notFound()
	}
	return r, nil
}

// collection is the client for creations, which need the namespace.
func (w route) collection() (ResourceClient, error) {
	r, err := w.all()
	if err == nil && r.kind.namespaced && w.namespace == "" {
		return r, notAllowed()
	}
	return r, err
}

// object is the client for what is about one object, and the subresource that remains to be named.
func (w route) object(name string, sub []string) (ResourceClient, []string, error) {
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

// readable tells whether a subresource can be read, which /status can: it shows the whole object.
func (r ResourceClient) readable(sub []string) error {
	if len(sub) == 0 || len(sub) == 1 && sub[0] == string(throughStatus) && r.kind.copyStatus != nil {
		return nil
	}
	return notFound()
}

// body returns an empty object of what one creates as a subresource.
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

// notAllowed is the answer to a verb that a place does not have.
func notAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, true)
}
