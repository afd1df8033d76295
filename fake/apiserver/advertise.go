package apiserver

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

const (
	// serverService is the service of the API server, in the namespace default.
	serverService = "kubernetes"
	// serverPort is the name of its port.
	serverPort = "https"
)

// Advertise writes the listener's address and port to the service default/kubernetes, its endpoints
// and its endpoint slice, as a kube-apiserver does when it starts. client is a client of the server
// that the handler serves. Objects that do not exist are not created.
//
// A listener on all addresses has the address of the host's default interface. A loopback address
// must not be in endpoints, and the service has no IPv6 address: for a listener on one of these, the
// address in the endpoints does not change.
//
// Differs: upstream advertises the default interface also for a loopback address, although nothing
// listens there. It writes again periodically, and removes the address when it stops.
//
// Upstream: pkg/controlplane/controller/kubernetesservice Controller, pkg/controlplane/reconcilers
// (v1.36); k8s.io/apiserver/pkg/server/options DefaultExternalAddress.
func (l *Listener) Advertise(ctx context.Context, client kubernetes.Interface) error {
	const namespace = metav1.NamespaceDefault
	address, port := advertisedAddress(l.addr.IP), int32(l.addr.Port)
	core := client.CoreV1()
	err := rewrite(ctx, core.Services(namespace), func(s *corev1.Service) {
		for i := range s.Spec.Ports {
			if s.Spec.Ports[i].Name == serverPort {
				s.Spec.Ports[i].TargetPort = intstr.FromInt32(port)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("advertise %s: service: %w", l.url, err)
	}
	//lint:ignore SA1019 it is served
	err = rewrite(ctx, core.Endpoints(namespace), func(e *corev1.Endpoints) {
		for i := range e.Subsets {
			subset := &e.Subsets[i]
			subset.Ports = []corev1.EndpointPort{{Name: serverPort, Port: port, Protocol: corev1.ProtocolTCP}}
			if address != "" {
				subset.Addresses = []corev1.EndpointAddress{{IP: address}}
			}
		}
	})
	if err != nil {
		return fmt.Errorf("advertise %s: endpoints: %w", l.url, err)
	}
	err = rewrite(ctx, client.DiscoveryV1().EndpointSlices(namespace), func(s *discoveryv1.EndpointSlice) {
		s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To(serverPort), Port: &port, Protocol: ptr.To(corev1.ProtocolTCP)}}
		for i := range s.Endpoints {
			if address != "" {
				s.Endpoints[i].Addresses = []string{address}
			}
		}
	})
	if err != nil {
		return fmt.Errorf("advertise %s: endpoint slice: %w", l.url, err)
	}
	return nil
}

// advertisedAddress returns the IPv4 address at which other hosts reach a socket on ip, or "".
func advertisedAddress(ip net.IP) string {
	if ip.IsUnspecified() {
		host, err := utilnet.ResolveBindAddress(net.IPv4zero)
		if err != nil {
			return "" // the host has no default interface
		}
		ip = host
	}
	if ip.To4() == nil || !ip.IsGlobalUnicast() {
		return ""
	}
	return ip.String()
}

// objectClient is the part of a typed client that rewrite uses.
type objectClient[T runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
}

// rewrite changes the object of the service, if it exists.
func rewrite[T runtime.Object](ctx context.Context, client objectClient[T], change func(T)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := client.Get(ctx, serverService, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		changed := stored.DeepCopyObject().(T)
		if change(changed); equality.Semantic.DeepEqual(stored, changed) {
			return nil
		}
		_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
}
