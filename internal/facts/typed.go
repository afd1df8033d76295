package facts

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// TypedClient returns a client that uses client-go's typed client. It does not show the answer to a
// deletion.
func TypedClient(c kubernetes.Interface) Client { return typedClient{c} }

type typedClient struct{ client kubernetes.Interface }

func (typedClient) Traits() Traits { return Traits{} }

// groups are the methods of kubernetes.Interface that return the client of a group.
var groups = map[schema.GroupVersion]string{
	{Version: "v1"}:                                     "CoreV1",
	{Group: "storage.k8s.io", Version: "v1"}:            "StorageV1",
	{Group: "apps", Version: "v1"}:                      "AppsV1",
	{Group: "coordination.k8s.io", Version: "v1"}:       "CoordinationV1",
	{Group: "events.k8s.io", Version: "v1"}:             "EventsV1",
	{Group: "policy", Version: "v1"}:                    "PolicyV1",
	{Group: "rbac.authorization.k8s.io", Version: "v1"}: "RbacV1",
}

// resourceClient returns the client of a resource.
func (w typedClient) resourceClient(r Request) (reflect.Value, error) {
	name, ok := groups[r.Resource.GroupVersion()]
	if !ok || r.Path != "" {
		return reflect.Value{}, ErrUnsupported
	}
	group := reflect.ValueOf(w.client).MethodByName(name).Call(nil)[0].Elem()
	for i := range group.NumMethod() {
		if !strings.EqualFold(group.Type().Method(i).Name, r.Resource.Resource) {
			continue
		}
		m := group.Method(i)
		if m.Type().NumIn() == 0 {
			return m.Call(nil)[0].Elem(), nil
		}
		return m.Call([]reflect.Value{reflect.ValueOf(r.Namespace)})[0].Elem(), nil
	}
	return reflect.Value{}, ErrUnsupported
}

// method returns the name of the client method for a request, or "".
func method(r Request) string {
	verb := map[string]string{
		"create": "Create", "get": "Get", "list": "List", "update": "Update", "patch": "Patch", "delete": "Delete",
		"deletecollection": "DeleteCollection", "watch": "Watch",
	}[r.Verb]
	switch sub := r.Verb + "/" + r.Subresource; {
	case sub == "patch/scale":
		return "" // the answer has another kind
	case r.Subresource == "" || r.Verb == "patch":
		return verb
	case sub == "update/status":
		return "UpdateStatus"
	case sub == "update/finalize":
		return "Finalize"
	case sub == "update/scale", sub == "get/scale":
		return verb + "Scale"
	case sub == "create/token":
		return "CreateToken"
	}
	return ""
}

// Do makes a request.
func (w typedClient) Do(ctx context.Context, r Request) (Response, error) {
	out, err := w.call(ctx, r)
	if err != nil {
		return Response{}, err
	}
	last := out[len(out)-1].Interface()
	if err, ok := last.(error); ok && err != nil {
		return errorResponse(err)
	}
	if len(out) == 1 {
		return Response{}, nil
	}
	res, err := objectResponse(out[0].Interface().(runtime.Object), 0)
	return res, err
}

// call calls the client method for a request.
func (w typedClient) call(ctx context.Context, r Request) ([]reflect.Value, error) {
	client, err := w.resourceClient(r)
	if err != nil {
		return nil, err
	}
	m := client.MethodByName(method(r))
	if !m.IsValid() {
		return nil, ErrUnsupported
	}
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < m.Type().NumIn(); i++ {
		in := m.Type().In(i)
		if m.Type().IsVariadic() && i == m.Type().NumIn()-1 {
			if r.Subresource != "" {
				args = append(args, reflect.ValueOf(r.Subresource))
			}
			break
		}
		arg, err := argument(r, in)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	if r.Verb == "update" && method(r) != "UpdateScale" && bodyName(r.Body) != r.Name {
		return nil, ErrUnsupported // the client takes the path from the object
	}
	return m.Call(args), nil
}

func bodyName(body []byte) string {
	var obj struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(body, &obj); err != nil {
		return ""
	}
	return obj.Metadata.Name
}

// argument returns an argument of type in for a client method.
func argument(r Request, in reflect.Type) (reflect.Value, error) {
	switch in {
	case reflect.TypeFor[string]():
		return reflect.ValueOf(r.Name), nil
	case reflect.TypeFor[types.PatchType]():
		return reflect.ValueOf(types.PatchType(r.Header.Get("Content-Type"))), nil
	case reflect.TypeFor[[]byte]():
		return reflect.ValueOf(r.Body), nil
	case reflect.TypeFor[metav1.DeleteOptions]():
		opts, err := deleteOptions(r)
		return reflect.ValueOf(opts), err
	}
	if in.Kind() == reflect.Pointer {
		obj := reflect.New(in.Elem())
		return obj, json.Unmarshal(r.Body, obj.Interface())
	}
	opts := reflect.New(in)
	into, ok := opts.Interface().(runtime.Object)
	if !ok {
		return reflect.Value{}, ErrUnsupported
	}
	return opts.Elem(), options(r.Query, into)
}

// Watch starts a watch.
func (w typedClient) Watch(ctx context.Context, r Request) (Stream, Response, error) {
	out, err := w.call(ctx, r)
	if err != nil {
		return nil, Response{}, err
	}
	if err, ok := out[1].Interface().(error); ok && err != nil {
		res, err := errorResponse(err)
		return nil, res, err
	}
	stream, ok := out[0].Interface().(watch.Interface)
	if !ok {
		return nil, Response{}, errors.New("client returned no watch")
	}
	return typedStream{stream}, Response{Code: http.StatusOK}, nil
}

type typedStream struct{ watch.Interface }

// Next waits for an event.
func (s typedStream) Next(ctx context.Context) (Event, error) {
	select {
	case e, ok := <-s.ResultChan():
		if !ok {
			return Event{}, io.EOF
		}
		return event(e)
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

// Close ends the watch.
func (s typedStream) Close() { s.Stop() }
