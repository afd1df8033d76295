package kubelet

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// serverService is the service of the API server, which all pods see.
//
// Upstream: pkg/kubelet masterServices (v1.36).
const serverService = "kubernetes"

// servicesFor returns the services that the environment of a pod shows, sorted by name.
//
// Differs: they are read when a container starts; upstream's kubelet watches them.
//
// Upstream: pkg/kubelet getServiceEnvVarMap (v1.36).
func (k *Kubelet) servicesFor(ctx context.Context, pod *corev1.Pod) ([]*corev1.Service, error) {
	byName := map[string]*corev1.Service{}
	add := func(s *corev1.Service) {
		if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
			byName[s.Name] = s
		}
	}
	links := ptr.Deref(pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	core := k.cfg.Client.CoreV1()
	if !links || pod.Namespace != metav1.NamespaceDefault {
		server, err := core.Services(metav1.NamespaceDefault).Get(ctx, serverService, metav1.GetOptions{})
		switch {
		case err == nil:
			add(server)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	if links {
		all, err := core.Services(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range all.Items {
			add(&all.Items[i])
		}
	}
	names := slices.Sorted(maps.Keys(byName))
	services := make([]*corev1.Service, len(names))
	for i, name := range names {
		services[i] = byName[name]
	}
	return services, nil
}

// serviceVariables returns the environment variables of services.
//
// Upstream: pkg/kubelet/envvars FromServices (v1.36).
func serviceVariables(services []*corev1.Service) *variables {
	all := &variables{values: map[string]string{}}
	for _, s := range services {
		prefix := variableName(s.Name)
		all.set(prefix+"_SERVICE_HOST", s.Spec.ClusterIP)
		for i := range s.Spec.Ports {
			port := &s.Spec.Ports[i]
			number := strconv.Itoa(int(port.Port))
			if i == 0 {
				all.set(prefix+"_SERVICE_PORT", number)
			}
			if port.Name != "" {
				all.set(prefix+"_SERVICE_PORT_"+variableName(port.Name), number)
			}
		}
		for i := range s.Spec.Ports {
			addLink(all, prefix, s.Spec.ClusterIP, &s.Spec.Ports[i], i == 0)
		}
	}
	return all
}

// addLink adds the variables of a port in the form of Docker's links.
//
// Upstream: pkg/kubelet/envvars makeLinkVariables (v1.36).
func addLink(to *variables, prefix, address string, port *corev1.ServicePort, first bool) {
	number, protocol := strconv.Itoa(int(port.Port)), string(port.Protocol)
	if protocol == "" {
		protocol = string(corev1.ProtocolTCP)
	}
	url := strings.ToLower(protocol) + "://" + net.JoinHostPort(address, number)
	if first {
		to.set(prefix+"_PORT", url)
	}
	own := prefix + "_PORT_" + number + "_" + strings.ToUpper(protocol)
	to.set(own, url)
	to.set(own+"_PROTO", strings.ToLower(protocol))
	to.set(own+"_PORT", number)
	to.set(own+"_ADDR", address)
}

// variableName returns a name as part of the name of a variable.
func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
