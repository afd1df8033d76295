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

// A Request is a request as an Interceptor sees it.
type Request struct {
	Verb        string // create, update, patch, delete, deletecollection, get, list or watch
	Resource    schema.GroupVersionResource
	Kind        schema.GroupVersionKind // of the objects
	Subresource string
	Namespace   string
	Name        string // "" for creations and requests about several objects
	// Body is the sent object of a creation or an update. The Interceptor may modify it before the
	// server serves the request.
	Body        runtime.Object
	PatchType   types.PatchType
	Patch       []byte
	Options     any                // such as metav1.CreateOptions; see ListOptions for requests about several objects
	ListOptions metav1.ListOptions // of deletecollection, list and watch
}

// An Interceptor is called for each request of a client. It either answers itself or calls serve:
// at once, later, or several times. The client copies the result.
type Interceptor interface {
	Intercept(r Request, serve func() (runtime.Object, error)) (runtime.Object, error)
	InterceptWatch(r Request, serve func() (watch.Interface, error)) (watch.Interface, error)
}

// An InterceptorFunc is an Interceptor that does not intercept watches.
type InterceptorFunc func(r Request, serve func() (runtime.Object, error)) (runtime.Object, error)

// Intercept implements Interceptor.
func (f InterceptorFunc) Intercept(r Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	return f(r, serve)
}

// InterceptWatch implements Interceptor.
func (InterceptorFunc) InterceptWatch(_ Request, serve func() (watch.Interface, error)) (watch.Interface, error) {
	return serve()
}

// WithInterceptor returns a client that makes its requests through an interceptor. Watches of
// typed, dynamic and metadata clients are intercepted; cursors of a ResourceClient are not.
func (c *Clientset) WithInterceptor(by Interceptor) *Clientset {
	out := c.clone()
	out.interceptor = by
	return out
}

// withoutInterceptor returns the client that calls the server.
func (r ResourceClient) withoutInterceptor() ResourceClient {
	r.c = r.c.clone()
	r.c.interceptor = nil
	return r
}

// interceptedRequest returns the description of a request, without its body.
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

// intercept makes a request that is answered with one object.
func (r ResourceClient) intercept(request Request, serve func(r ResourceClient) (Result, error)) (Result, error) {
	var done Result
	obj, err := r.c.interceptor.Intercept(request, func() (runtime.Object, error) {
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

// interceptList makes a request that is answered with a list. Like client-go's fake clientset, it
// applies the label selector to the interceptor's list.
func (r ResourceClient) interceptList(request Request,
	serve func(r ResourceClient) (ObjectList, error),
) (ObjectList, error) {
	list, err := r.c.interceptor.Intercept(request, func() (runtime.Object, error) {
		all, err := serve(r.withoutInterceptor())
		if err != nil {
			return nil, err
		}
		return r.ListOf(all), nil
	})
	if err != nil || list == nil {
		return ObjectList{}, err
	}
	selector, err := labels.Parse(request.ListOptions.LabelSelector)
	if err != nil {
		return ObjectList{}, apierrors.NewBadRequest(err.Error())
	}
	return listedOf(list, selector)
}

// listedOf returns the selected items of a list.
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

// stream starts a watch. show returns the watcher's own copy of an object.
func (r ResourceClient) stream(ctx context.Context, opts metav1.ListOptions,
	show func(Object) (runtime.Object, error),
) (watch.Interface, error) {
	if by := r.c.interceptor; by != nil {
		request := r.interceptedRequest("watch", "", opts)
		request.ListOptions = opts
		return by.InterceptWatch(request, func() (watch.Interface, error) {
			return r.withoutInterceptor().stream(ctx, opts, show)
		})
	}
	c, err := r.Watch(ctx, opts)
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsTimeout(err) {
		return nil, err
	}
	return newPump(ctx, c, err, opts.TimeoutSeconds, show), nil
}
