package crd

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/endpoint"
)

// webhooks calls the conversion webhooks of definitions.
type webhooks struct {
	server  *fake.Server
	factory *conversion.CRConverterFactory
}

func newWebhooks(server *fake.Server) *webhooks {
	w := &webhooks{server: server}
	var err error
	w.factory, err = conversion.NewCRConverterFactory(w,
		func(next webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
			return transports{webhooks: w, next: next}
		})
	if err != nil {
		panic(fmt.Sprintf("crd: create converters: %v", err)) // it has no file to read
	}
	return w
}

// converterOf returns the function that calls the webhook of a definition, or nil if it has none.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver schemaCoercingConverter.
func (w *webhooks) converterOf(
	crd *apiextensionsv1.CustomResourceDefinition, versions map[string]*version,
) func([]*fake.CustomObject, string) error {
	if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
		return nil
	}
	_, converter, err := w.factory.NewConverter(crd)
	if err != nil {
		return func([]*fake.CustomObject, string) error { return err }
	}
	return func(objects []*fake.CustomObject, to string) error {
		review, err := reviewOf(objects)
		if err != nil {
			return err
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: to}
		converted, err := converter.ConvertToVersion(review, gv)
		if err != nil {
			return err
		}
		return take(objects, converted, versions[to])
	}
}

// reviewOf returns the objects as they are sent to a webhook. As on the real server they have no
// resourceVersion.
func reviewOf(objects []*fake.CustomObject) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(objects))}
	for i, obj := range objects {
		bare := *obj
		bare.ResourceVersion = ""
		u, err := bare.Unstructured()
		if err != nil {
			return nil, err
		}
		list.Items[i] = *u
	}
	if len(list.Items) == 1 {
		return &list.Items[0], nil
	}
	list.SetGroupVersionKind(objects[0].GroupVersionKind()) // for errors
	return list, nil
}

// take replaces objects by what a webhook returned for them.
func take(objects []*fake.CustomObject, converted runtime.Object, to *version) error {
	items := []unstructured.Unstructured{}
	switch c := converted.(type) {
	case *unstructured.Unstructured:
		items = append(items, *c)
	case *unstructured.UnstructuredList:
		items = c.Items
	}
	for i := range items {
		u := &items[i]
		if err := objectmeta.Coerce(nil, u.Object, to.schema, false, false); err != nil {
			return err
		}
		out := &fake.CustomObject{TypeMeta: objects[i].TypeMeta, ObjectMeta: objects[i].ObjectMeta, Content: u.Object}
		out.APIVersion, out.Labels, out.Annotations = u.GetAPIVersion(), u.GetLabels(), u.GetAnnotations()
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(out.Content, name)
		}
		objects[i] = out
	}
	return nil
}

// transports returns the client configurations of webhooks.
type transports struct {
	webhooks *webhooks
	next     webhook.AuthenticationInfoResolver
}

// ClientConfigFor returns the configuration for a webhook with a URL.
func (t transports) ClientConfigFor(hostPort string) (*rest.Config, error) {
	return t.next.ClientConfigFor(hostPort)
}

// ClientConfigForService returns the configuration for a webhook with a Service.
func (t transports) ClientConfigForService(name, namespace string, port int) (*rest.Config, error) {
	config, err := t.next.ClientConfigForService(name, namespace, port)
	if err != nil {
		return nil, err
	}
	if h := t.webhooks.server.ServiceHandler(namespace, name); h != nil {
		config.Timeout = 0 // it would need a timer
		config.Wrap(func(http.RoundTripper) http.RoundTripper { return inMemory{h} })
	}
	return config, nil
}

// ResolveEndpoint returns the address at which a Service is reached from outside of the world: that
// of an ExternalName, or of the first ready endpoint.
//
// A Service inside the process has no address: its transport answers whatever the address is. From
// version 0.37 on, k8s.io/apiserver asks for it before it calls the transport.
//
// Differs: the real server sends to the cluster IP, to which nothing is routed here. With
// --enable-aggregator-routing it chooses a ready endpoint at random.
//
// Upstream: k8s.io/apiserver/pkg/util/proxy ResolveEndpoint, ResolveCluster.
func (w *webhooks) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if w.server.ServiceHandler(namespace, name) != nil {
		return address(name+"."+namespace+".svc", port), nil
	}
	obj, ok := w.server.Get("services", namespace, name)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("service"), name)
	}
	svc := obj.(*corev1.Service)
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return address(svc.Spec.ExternalName, port), nil
	}
	for _, p := range svc.Spec.Ports {
		if p.Port != port {
			continue
		}
		if u := w.endpoint(svc, p.Name); u != nil {
			return u, nil
		}
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
}

// endpoint returns the address of the first ready endpoint of a Service's port, or nil.
func (w *webhooks) endpoint(svc *corev1.Service, port string) *url.URL {
	for _, obj := range w.server.List("endpointslices") {
		slice := obj.(*discoveryv1.EndpointSlice)
		if slice.Namespace != svc.Namespace || slice.Labels[discoveryv1.LabelServiceName] != svc.Name {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || ptr.Deref(p.Name, "") != port {
				continue
			}
			for _, e := range slice.Endpoints {
				if ptr.Deref(e.Conditions.Ready, true) && len(e.Addresses) > 0 {
					return address(e.Addresses[0], *p.Port)
				}
			}
		}
	}
	return nil
}

func address(host string, port int32) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
}

// inMemory answers requests by a handler, on the goroutine of the request.
type inMemory struct{ http.Handler }

// RoundTrip answers a request.
func (h inMemory) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := endpoint.Respond(h, req)
	resp.Header.Del("Retry-After") // a retry would wait on the wall clock
	if req.Body != nil {
		_ = req.Body.Close() // it is in memory
	}
	return resp, nil
}
