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
	Body        runtime.Object
	PatchType   types.PatchType
	Patch       []byte
	Options     any                // such as metav1.CreateOptions; of what is about many objects, see Selection
	ListOptions metav1.ListOptions // of deletecollection, list and watch
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

// WithInterceptor returns a client that makes its requests through an interceptor. Cursors of a ResourceClient excepted: only
// watches that a goroutine moves are intercepted.
func (c *Clientset) WithInterceptor(by Interceptor) *Clientset {
	out := *c
	out.interceptor = by
	return &out
}

// withoutInterceptor is the client that asks the server.
func (r ResourceClient) withoutInterceptor() ResourceClient {
	c := *r.c
	c.interceptor = nil
	r.c = &c
	return r
}

// interceptedRequest begins the description of a request.
func (r ResourceClient) interceptedRequest(verb, name string, options any, sub ...string) Request {
	of := r.kind
	if of.base != nil && of.base.scale == of {
		of, sub = of.base, []string{"scale"}
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
		done, err = serve(r.withoutInterceptor())
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
func (r ResourceClient) interceptList(what Request, serve func(r ResourceClient) (ObjectList, error)) (ObjectList, error) {
	list, err := r.c.interceptor.Intercept(what, func() (runtime.Object, error) {
		all, err := serve(r.withoutInterceptor())
		if err != nil {
			return nil, err
		}
		return r.ListOf(all), nil
	})
	if err != nil || list == nil {
		return ObjectList{}, err
	}
	selector, err := labels.Parse(what.ListOptions.LabelSelector)
	if err != nil {
		return ObjectList{}, apierrors.NewBadRequest(err.Error())
	}
	return listedOf(list, selector)
}

// listedOf takes a list apart.
func listedOf(list runtime.Object, selector labels.Selector) (ObjectList, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return ObjectList{}, err
	}
	var out ObjectList
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
		what := r.interceptedRequest("watch", "", opts)
		what.ListOptions = opts
		return by.InterceptWatch(what, func() (watch.Interface, error) { return r.withoutInterceptor().stream(ctx, opts, show) })
	}
	c, err := r.Watch(ctx, opts)
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsTimeout(err) {
		return nil, err
	}
	return newPump(ctx, c, err, opts.TimeoutSeconds, show), nil
}
