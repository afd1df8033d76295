package facts

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volsim/volsim/fake"
)

// UntypedClient returns a client that uses fake.ResourceClient, on which all other clients of
// package fake are built.
func UntypedClient(c *fake.Clientset) Client { return untypedClient{c} }

type untypedClient struct{ client *fake.Clientset }

func (untypedClient) Traits() Traits { return Traits{} }

// Do makes a request.
func (w untypedClient) Do(ctx context.Context, r Request) (Response, error) {
	c, ok := w.client.Resource(r.Resource, r.Namespace)
	if !ok || r.Path != "" {
		return Response{}, ErrUnsupported
	}
	if r.Subresource == "scale" {
		if c, ok = c.Scale(); !ok {
			return Response{}, ErrUnsupported
		}
		r.Subresource = ""
	}
	obj, code, err := w.do(ctx, c, r)
	if err != nil {
		return errorResponse(err)
	}
	return objectResponse(obj, code)
}

// do makes a request, and returns the object and the code of the answer.
func (w untypedClient) do(ctx context.Context, c fake.ResourceClient, r Request) (runtime.Object, int, error) {
	var sub []string
	if r.Subresource != "" {
		sub = []string{r.Subresource}
	}
	var done fake.Result
	var err error
	switch r.Verb {
	case "create":
		if r.Subresource != "" {
			return w.act(ctx, c, r)
		}
		var opts metav1.CreateOptions
		obj := c.New()
		if err := errors.Join(options(r.Query, &opts), json.Unmarshal(r.Body, obj)); err != nil {
			return nil, 0, err
		}
		done, err = c.Create(ctx, obj, opts)
	case "update":
		var opts metav1.UpdateOptions
		obj := c.New()
		if err := errors.Join(options(r.Query, &opts), json.Unmarshal(r.Body, obj)); err != nil {
			return nil, 0, err
		}
		done, err = c.Update(ctx, r.Name, obj, opts, sub...)
	case "patch":
		var opts metav1.PatchOptions
		if err := options(r.Query, &opts); err != nil {
			return nil, 0, err
		}
		done, err = c.Patch(ctx, r.Name, types.PatchType(r.Header.Get("Content-Type")), r.Body, opts, sub...)
	case "delete":
		opts, err := deleteOptions(r)
		if err != nil {
			return nil, 0, err
		}
		if done, err = c.Delete(ctx, r.Name, opts); err == nil && done.Deleted && c.DeleteReturnsStatus() {
			return deletionStatus(r, done.Object), http.StatusOK, nil
		}
		return done.Object, http.StatusOK, err
	default:
		return w.read(ctx, c, r, sub)
	}
	code := http.StatusOK
	if done.Created || r.Verb == "create" {
		code = http.StatusCreated
	}
	return done.Object, code, err
}

// deletionStatus returns the answer to a deletion that returns no object.
func deletionStatus(r Request, obj fake.Object) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: r.Name, Group: r.Resource.Group, Kind: r.Resource.Resource, UID: obj.GetUID(),
	}}
}

// read makes a request that reads, or that deletes a collection.
func (w untypedClient) read(
	ctx context.Context, c fake.ResourceClient, r Request, sub []string,
) (runtime.Object, int, error) {
	var list metav1.ListOptions
	switch r.Verb {
	case "get":
		var opts metav1.GetOptions
		if err := options(r.Query, &opts); err != nil || len(sub) > 0 && sub[0] != "status" {
			return nil, 0, errors.Join(err, ErrUnsupported)
		}
		obj, err := c.Get(ctx, r.Name, opts)
		return obj, http.StatusOK, err
	case "list":
		if err := options(r.Query, &list); err != nil {
			return nil, 0, err
		}
		all, err := c.List(ctx, list)
		return c.ListOf(all), http.StatusOK, err
	case "deletecollection":
		opts, err := deleteOptions(r)
		if err := errors.Join(err, options(r.Query, &list)); err != nil {
			return nil, 0, err
		}
		all, err := c.DeleteCollection(ctx, opts, list)
		return c.ListOf(all), http.StatusOK, err
	}
	return nil, 0, ErrUnsupported
}

// act creates a subresource.
func (w untypedClient) act(ctx context.Context, c fake.ResourceClient, r Request) (runtime.Object, int, error) {
	var opts metav1.CreateOptions
	if err := options(r.Query, &opts); err != nil {
		return nil, 0, err
	}
	for _, s := range c.Describe().Subresources {
		if s.Name != r.Resource.Resource+"/"+r.Subresource {
			continue
		}
		body, err := scheme.Scheme.New(schema.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind})
		if err != nil {
			return nil, 0, err
		}
		if err := json.Unmarshal(r.Body, body); err != nil {
			return nil, 0, err
		}
		obj, err := c.CreateSubresource(ctx, r.Name, r.Subresource, body, opts)
		return obj, http.StatusCreated, err
	}
	return nil, 0, ErrUnsupported
}

// Watch starts a watch.
func (w untypedClient) Watch(ctx context.Context, r Request) (Stream, Response, error) {
	c, ok := w.client.Resource(r.Resource, r.Namespace)
	if !ok {
		return nil, Response{}, ErrUnsupported
	}
	var opts metav1.ListOptions
	if err := options(r.Query, &opts); err != nil {
		return nil, Response{}, err
	}
	if opts.TimeoutSeconds != nil {
		return nil, Response{}, ErrUnsupported // a Cursor has no timeout
	}
	cursor, err := c.Watch(ctx, opts)
	if apierrors.IsResourceExpired(err) {
		return &cursorStream{failed: err}, Response{Code: http.StatusOK}, nil
	}
	if err != nil {
		res, err := errorResponse(err)
		return nil, res, err
	}
	return &cursorStream{cursor: cursor}, Response{Code: http.StatusOK}, nil
}

type cursorStream struct {
	cursor *fake.Cursor
	failed error // sent as the first event
	ended  bool
}

// Next waits for an event.
func (s *cursorStream) Next(ctx context.Context) (Event, error) {
	if s.ended {
		return Event{}, io.EOF
	}
	for s.failed == nil {
		e, ok, err := s.cursor.Next()
		if ok {
			return event(e)
		}
		if s.failed = err; err != nil {
			break
		}
		select {
		case <-s.cursor.Changed():
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
	s.ended = true
	res, err := errorResponse(s.failed)
	return Event{Type: string(watch.Error), Object: res.Body}, err
}

// Close ends the watch.
func (s *cursorStream) Close() { s.ended = true }

func event(e watch.Event) (Event, error) {
	res, err := objectResponse(e.Object, 0)
	return Event{Type: string(e.Type), Object: res.Body}, err
}

// options decodes the query parameters of a request.
func options(query url.Values, into runtime.Object) error {
	return scheme.ParameterCodec.DecodeParameters(query, schema.GroupVersion{Version: "v1"}, into)
}

// deleteOptions decodes the options of a deletion, from the body if there is one.
func deleteOptions(r Request) (metav1.DeleteOptions, error) {
	var opts metav1.DeleteOptions
	if len(r.Body) > 0 {
		return opts, json.Unmarshal(r.Body, &opts)
	}
	return opts, options(r.Query, &opts)
}

// errorResponse returns the answer for an error of the API.
func errorResponse(err error) (Response, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Response{}, err
	}
	st := status.Status()
	return objectResponse(&st, int(st.Code))
}

// objectResponse returns the answer with an object.
func objectResponse(obj runtime.Object, code int) (Response, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return Response{}, err
	}
	v, err := decodeJSON(data)
	if err != nil {
		return Response{}, err
	}
	body, _ := v.(map[string]any)
	setTypeMeta(body, obj)
	if meta.IsListType(obj) {
		for _, item := range asList(body["items"]) {
			if m, ok := item.(map[string]any); ok {
				dropNullTimestamp(m)
			}
		}
	}
	dropNullTimestamp(body)
	return Response{Code: code, Body: body}, nil
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// dropNullTimestamp removes the null creationTimestamp that JSON encoding of a Go type adds.
func dropNullTimestamp(body map[string]any) {
	if m, ok := body["metadata"].(map[string]any); ok && m["creationTimestamp"] == nil {
		delete(m, "creationTimestamp")
	}
}

// setTypeMeta sets apiVersion and kind, which typed objects lack.
func setTypeMeta(body map[string]any, obj runtime.Object) {
	if body == nil || body["kind"] != nil {
		return
	}
	if kinds, _, err := scheme.Scheme.ObjectKinds(obj); err == nil {
		body["apiVersion"], body["kind"] = kinds[0].ToAPIVersionAndKind()
	}
}
