package rules

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file has the rules of endpoint slices.
//
// Differs: forbidden addresses, such as loopback addresses, and deprecatedTopology, which is
// dropped, are not validated. An address in an unusual form causes no warning.
//
// Upstream: pkg/registry/discovery/endpointslice; pkg/apis/discovery/validation.

const (
	sliceEndpointsMax = 1000
	sliceAddressesMax = 100
	slicePortsMax     = 20_000
	sliceHintsMax     = 8
)

func defaultEndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		setIfNil(&s.Ports[i].Name, "")
		setIfNil(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func prepareEndpointSliceCreate(_ metav1.Time, s, _ *discoveryv1.EndpointSlice) {
	s.Generation = 1
	dropTopology(s, nil)
}

func prepareEndpointSliceUpdate(_ metav1.Time, s, old *discoveryv1.EndpointSlice) {
	a, b := *s, *old
	a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{}, metav1.ObjectMeta{}
	if !equal(&a, &b) || !maps.Equal(s.Labels, old.Labels) {
		s.Generation = old.Generation + 1
	}
	dropTopology(s, old)
}

// dropTopology drops the topology of changed endpoints, which only v1beta1 could write.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	if old != nil && equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		return
	}
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil
	}
}

func validateEndpointSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	var errs field.ErrorList
	if path := field.NewPath("addressType"); s.AddressType == "" {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, oneOf(s.AddressType, path, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4,
			discoveryv1.AddressTypeIPv6)...)
	}
	errs = append(errs, validateSlicePorts(s.Ports, field.NewPath("ports"))...)
	found := validateSliceEndpoints(s, field.NewPath("endpoints"))
	if old == nil || !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		errs = append(errs, found...)
	}
	return errs
}

func validateEndpointSliceUpdate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	return append(validateEndpointSlice(s, old), immutable(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
}

func validateSlicePorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(ports) > slicePortsMax {
		return field.ErrorList{field.TooMany(path, len(ports), slicePortsMax)}
	}
	var errs field.ErrorList
	var names []string
	for i, p := range ports {
		at, name := path.Index(i), ptr.Deref(p.Name, "")
		if name != "" {
			errs = append(errs, validateLabel(name, at.Child("name"))...)
		}
		if slices.Contains(names, name) {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		names = append(names, name)
		errs = append(errs, oneOf(ptr.Deref(p.Protocol, ""), at.Child("protocol"), corev1.ProtocolSCTP,
			corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		if p.AppProtocol != nil {
			errs = append(errs, validateQualified(*p.AppProtocol, at.Child("appProtocol"))...)
		}
	}
	return errs
}

func validateSliceEndpoints(s *discoveryv1.EndpointSlice, path *field.Path) field.ErrorList {
	if len(s.Endpoints) > sliceEndpointsMax {
		return field.ErrorList{field.TooMany(path, len(s.Endpoints), sliceEndpointsMax)}
	}
	var errs field.ErrorList
	for i := range s.Endpoints {
		e, at := &s.Endpoints[i], path.Index(i)
		switch addresses := at.Child("addresses"); {
		case len(e.Addresses) == 0:
			errs = append(errs, field.Required(addresses, "must contain at least 1 address"))
		case len(e.Addresses) > sliceAddressesMax:
			errs = append(errs, field.TooMany(addresses, len(e.Addresses), sliceAddressesMax))
		}
		for j, address := range e.Addresses {
			errs = append(errs, validateSliceAddress(s.AddressType, address, at.Child("addresses"), j)...)
		}
		if e.NodeName != nil {
			errs = append(errs, validateName(*e.NodeName, at.Child("nodeName"))...)
		}
		if e.Hostname != nil {
			errs = append(errs, validateLabel(*e.Hostname, at.Child("hostname"))...)
		}
		if e.Hints != nil {
			errs = append(errs, validateHints(e.Hints, at.Child("hints"))...)
		}
	}
	return errs
}

func validateSliceAddress(of discoveryv1.AddressType, address string, path *field.Path, i int) field.ErrorList {
	if of == discoveryv1.AddressTypeFQDN {
		return utilvalidation.IsFullyQualifiedDomainName(path.Index(i), address)
	}
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path.Index(i), address,
			"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")}
	case of == discoveryv1.AddressTypeIPv4 && !ip.Is4():
		return field.ErrorList{field.Invalid(path, address, "must be an IPv4 address")}
	case of == discoveryv1.AddressTypeIPv6 && !ip.Is6():
		return field.ErrorList{field.Invalid(path, address, "must be an IPv6 address")}
	}
	return nil
}

func validateHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	if zones := path.Child("forZones"); len(h.ForZones) > sliceHintsMax {
		return field.ErrorList{field.TooMany(zones, len(h.ForZones), sliceHintsMax)}
	}
	var errs field.ErrorList
	var names []string
	for i, z := range h.ForZones {
		at := path.Child("forZones").Index(i).Child("name")
		if slices.Contains(names, z.Name) {
			errs = append(errs, field.Duplicate(at, z.Name))
		}
		names = append(names, z.Name)
		for _, msg := range utilvalidation.IsValidLabelValue(z.Name) {
			errs = append(errs, field.Invalid(at, z.Name, msg))
		}
	}
	if nodes := path.Child("forNodes"); len(h.ForNodes) > sliceHintsMax {
		errs = append(errs, field.TooMany(nodes, len(h.ForNodes), sliceHintsMax))
	}
	return errs
}

func warnEndpointSlice(s, old *discoveryv1.EndpointSlice) []string {
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		return []string{"spec.addressType: FQDN endpoints are deprecated"}
	}
	return nil
}
