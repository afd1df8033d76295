package table

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var serviceColumns = []metav1.TableColumnDefinition{
	name,
	text("Type", doc(corev1.ServiceSpec{}, "type")),
	text("Cluster-IP", doc(corev1.ServiceSpec{}, "clusterIP")),
	text("External-IP", doc(corev1.ServiceSpec{}, "externalIPs")),
	text("Port(s)", doc(corev1.ServiceSpec{}, "ports")),
	age,
	wide(text("Selector", doc(corev1.ServiceSpec{}, "selector"))),
}

func serviceCells(s *corev1.Service, now clock) []any {
	inside := none
	if len(s.Spec.ClusterIPs) > 0 {
		inside = s.Spec.ClusterIPs[0]
	}
	var ports []string
	for _, p := range s.Spec.Ports {
		if p.NodePort > 0 {
			ports = append(ports, fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol))
		} else {
			ports = append(ports, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
	}
	return []any{
		s.Name, string(s.Spec.Type), inside, externalIPs(s), valueOr(strings.Join(ports, ","), none),
		now.since(s.CreationTimestamp),
		labels.FormatLabels(s.Spec.Selector),
	}
}

// externalIPs returns the external addresses of a service.
func externalIPs(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return valueOr(strings.Join(s.Spec.ExternalIPs, ","), none)
	case corev1.ServiceTypeLoadBalancer:
		return valueOr(strings.Join(slices.Concat(balancers(s), s.Spec.ExternalIPs), ","), "<pending>")
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return unknown
}

func balancers(s *corev1.Service) []string {
	var all []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		if at := valueOr(in.IP, in.Hostname); at != "" {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

//lint:ignore SA1019 it is served
var endpointsColumns = []metav1.TableColumnDefinition{name, text("Endpoints", doc(corev1.Endpoints{}, "subsets")), age}

// endpointsMax is the largest number of addresses in a cell.
const endpointsMax = 3

//lint:ignore SA1019 it is served
func endpointsCells(e *corev1.Endpoints, now clock) []any {
	var all []string
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				all = append(all, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	cell := none
	if len(e.Subsets) > 0 {
		cell = firstFew(all)
	}
	return []any{e.Name, cell, now.since(e.CreationTimestamp)}
}

// firstFew lists the first values, and says how many more there are.
func firstFew(all []string) string {
	cell := strings.Join(all[:min(len(all), endpointsMax)], ",")
	if len(all) > endpointsMax {
		cell += fmt.Sprintf(" + %d more...", len(all)-endpointsMax)
	}
	return cell
}

var endpointSliceColumns = []metav1.TableColumnDefinition{
	name,
	text("AddressType", doc(discoveryv1.EndpointSlice{}, "addressType")),
	text("Ports", doc(discoveryv1.EndpointSlice{}, "ports")),
	text("Endpoints", doc(discoveryv1.EndpointSlice{}, "endpoints")),
	age,
}

func endpointSliceCells(s *discoveryv1.EndpointSlice, now clock) []any {
	var ports, addresses []string
	for _, p := range s.Ports {
		switch {
		case p.Port != nil:
			ports = append(ports, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			ports = append(ports, *p.Name)
		default:
			ports = append(ports, "*")
		}
	}
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	return []any{
		s.Name, string(s.AddressType), valueOr(firstFew(ports), "<unset>"), valueOr(firstFew(addresses), "<unset>"),
		now.since(s.CreationTimestamp),
	}
}
