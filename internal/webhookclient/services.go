package webhookclient

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/endpoint"
)

// Services finds the Services of a server's webhooks.
type Services struct{ Server *fake.Server }

var _ webhook.ServiceResolver = Services{}

// InProcess reports whether a Service runs inside the process.
func (s Services) InProcess(namespace, name string) bool {
	return s.Server.ServiceHandler(namespace, name) != nil
}

// Wrap returns a resolver for which a Service inside the process answers without a network.
func (s Services) Wrap(next webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	return resolver{services: s, next: next}
}

// resolver returns the client configurations of webhooks.
type resolver struct {
	services Services
	next     webhook.AuthenticationInfoResolver
}

// ClientConfigFor returns the configuration for a webhook with a URL.
func (t resolver) ClientConfigFor(hostPort string) (*rest.Config, error) {
	return t.next.ClientConfigFor(hostPort)
}

// ClientConfigForService returns the configuration for a webhook with a Service.
func (t resolver) ClientConfigForService(name, namespace string, port int) (*rest.Config, error) {
	config, err := t.next.ClientConfigForService(name, namespace, port)
	if err != nil {
		return nil, err
	}
	if h := t.services.Server.ServiceHandler(namespace, name); h != nil {
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
func (s Services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if s.Server.ServiceHandler(namespace, name) != nil {
		return address(name+"."+namespace+".svc", port), nil
	}
	obj, ok := s.Server.Get("services", namespace, name)
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
		if u := s.endpoint(svc, p.Name); u != nil {
			return u, nil
		}
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
}

// endpoint returns the address of the first ready endpoint of a Service's port, or nil.
func (s Services) endpoint(svc *corev1.Service, port string) *url.URL {
	for _, obj := range s.Server.List("endpointslices") {
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
