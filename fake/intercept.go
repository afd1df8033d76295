package fake

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Request is a request as an Interceptor sees it.
type Request struct {
	Verb        string // create, update, patch, delete, deletecollection, get, list or watch
	Resource    schema.GroupVersionResource
	Kind        schema.GroupVersionKind // of the objects
	Subresource string
	Namespace   string
	Name        string // "" of a creation and of what is about many objects
	// Body is what was sent, of a creation or an update. It is the Interceptor's own: what that makes of it before it lets
	// the server serve the request is what the server is sent.
	Body      runtime.Object
	PatchType types.PatchType
	Patch     []byte
	Options   any                // such as metav1.CreateOptions; of what is about many objects, see Selection
	Selection metav1.ListOptions // of deletecollection, list and watch
}

// Interceptor stands between a client and the server. It answers a request itself, or lets the server serve it: at
// once, later, or more than once. What it returns is the client's to copy.
type Interceptor interface {
	Intercept(r Request, serve func() (runtime.Object, error)) (runtime.Object, error)
	InterceptWatch(r Request, serve func() (watch.Interface, error)) (watch.Interface, error)
}

// InterceptorFunc is an Interceptor made of a function. It lets watches be.
type InterceptorFunc func(r Request, serve func() (runtime.Object, error)) (runtime.Object, error)

// Intercept implements Interceptor.
func (f InterceptorFunc) Intercept(r Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	return f(r, serve)
}

// InterceptWatch implements Interceptor.
func (InterceptorFunc) InterceptWatch(_ Request, serve func() (watch.Interface, error)) (watch.Interface, error) {
	return serve()
}

// Intercepted returns a client that makes its requests through an interceptor. Cursors of a ResourceClient excepted: only
// watches that a goroutine moves are intercepted.
func (c *Clientset) Intercepted(by Interceptor) *Clientset {
	out := *c
	out.interceptor = by
	return &out
}

// direct is the client that asks the server.
func (r ResourceClient) direct() ResourceClient {
	c := *r.c
	c.interceptor = nil
	r.c = &c
	return r
}

// asked begins the description of a request.
func (r ResourceClient) asked(verb, name string, options any, sub ...string) Request {
	of := r.kind
	if of.of != nil && of.of.scale == of {
		of, sub = of.of, []string{"scale"}
	}
	out := Request{
		Verb: verb, Kind: r.GroupVersionKind(), Namespace: r.namespace, Name: name, Options: options,
		Resource: of.gvk.GroupVersion().WithResource(of.resource),
	}
	if of.custom != nil {
		out.Resource.Version = r.version
	}
	if len(sub) > 0 {
		out.Subresource = sub[0]
	}
	return out
}

// intercept makes a request that has one object for an answer.
func (r ResourceClient) intercept(what Request, serve func(r ResourceClient) (Result, error)) (Result, error) {
	var done Result
	obj, err := r.c.interceptor.Intercept(what, func() (runtime.Object, error) {
		var err error
		done, err = serve(r.direct())
		if err != nil || done.Object == nil {
			return nil, err
		}
		return done.Object, nil
	})
	if err != nil {
		return Result{}, err
	}
	if done.Object = r.kind.empty(); obj != nil {
		done.Object = obj.(Object)
	}
	return done, nil
}

// interceptList makes a request that has a list for an answer. Like client-go's, it looks at the labels of what somebody
// else than the server answers.
func (r ResourceClient) interceptList(what Request, serve func(r ResourceClient) (Listed, error)) (Listed, error) {
	list, err := r.c.interceptor.Intercept(what, func() (runtime.Object, error) {
		all, err := serve(r.direct())
		if err != nil {
			return nil, err
		}
		return r.ListOf(all), nil
	})
	if err != nil || list == nil {
		return Listed{}, err
	}
	selector, err := labels.Parse(what.Selection.LabelSelector)
	if err != nil {
		return Listed{}, apierrors.NewBadRequest(err.Error())
	}
	return listedOf(list, selector)
}

// listedOf takes a list apart.
func listedOf(list runtime.Object, selector labels.Selector) (Listed, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return Listed{}, err
	}
	var out Listed
	if head, err := meta.ListAccessor(list); err == nil {
		out.ListMeta = metav1.ListMeta{
			ResourceVersion: head.GetResourceVersion(), Continue: head.GetContinue(),
			RemainingItemCount: head.GetRemainingItemCount(),
		}
	}
	for _, item := range items {
		if obj := item.(Object); selector.Matches(labels.Set(obj.GetLabels())) {
			out.Objects = append(out.Objects, obj)
		}
	}
	return out, nil
}

// stream watches. show makes of an object what the watcher is to see of it, which is the watcher's own.
func (r ResourceClient) stream(ctx context.Context, opts metav1.ListOptions, show func(Object) (runtime.Object, error)) (watch.Interface, error) {
	if by := r.c.interceptor; by != nil {
		what := r.asked("watch", "", opts)
		what.Selection = opts
		return by.InterceptWatch(what, func() (watch.Interface, error) { return r.direct().stream(ctx, opts, show) })
	}
	c, err := r.Watch(ctx, opts)
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsTimeout(err) {
		return nil, err
	}
	return newPump(ctx, c, err, opts.TimeoutSeconds, show), nil
}
