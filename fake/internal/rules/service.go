package rules

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of services and endpoints, as far as a StatefulSet's headless service
// needs them.
//
// Upstream: pkg/apis/core/v1 SetDefaults_Service; pkg/apis/core/validation ValidateService,
// ValidateEndpoints.

// defaultService sets the defaults of a service.
//
// Differs: services that are reached from outside have no further defaults. There is only IPv4.
func defaultService(s *corev1.Service) {
	spec := &s.Spec
	setIfEmpty(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		setIfNil(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		setIfNil(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		setIfNil(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	setIfEmpty(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		setIfEmpty(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if NeedsClusterIP(spec) {
		setIfNil(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
		setIfNil(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// NeedsClusterIP reports whether a service of this type has a cluster IP.
func NeedsClusterIP(spec *corev1.ServiceSpec) bool {
	return slices.Contains([]corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
	}, spec.Type)
}

func prepareServiceCreate(_ metav1.Time, s, _ *corev1.Service) { s.Status = corev1.ServiceStatus{} }

// prepareServiceUpdate keeps the cluster IP, unless the writer sends another.
func prepareServiceUpdate(_ metav1.Time, s, old *corev1.Service) {
	if s.Spec.ClusterIP == "" && NeedsClusterIP(&s.Spec) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
}

// ClusterIP returns the n-th cluster IP.
func ClusterIP(n uint64) string { return fmt.Sprintf("10.96.%d.%d", n/250%250, n%250+1) }

func validateService(s, _ *corev1.Service) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	if len(spec.Ports) == 0 && spec.ClusterIP != corev1.ClusterIPNone && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(specPath.Child("ports"), ""))
	}
	seen := map[string]bool{}
	for i := range spec.Ports {
		errs = append(errs, validateServicePort(&spec.Ports[i], len(spec.Ports) > 1, seen,
			specPath.Child("ports").Index(i))...)
	}
	errs = append(errs, oneOf(spec.SessionAffinity, specPath.Child("sessionAffinity"), corev1.ServiceAffinityClientIP,
		corev1.ServiceAffinityNone)...)
	errs = append(errs, oneOf(spec.Type, specPath.Child("type"), corev1.ServiceTypeClusterIP,
		corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	if spec.Type == corev1.ServiceTypeExternalName {
		if path := specPath.Child("externalName"); spec.ExternalName == "" {
			errs = append(errs, field.Required(path, ""))
		} else {
			errs = append(errs, validateName(spec.ExternalName, path)...)
		}
	}
	return errs
}

func validateServicePort(p *corev1.ServicePort, named bool, seen map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name == "" && named:
		errs = append(errs, field.Required(path.Child("name"), ""))
	case p.Name != "":
		errs = append(errs, validateLabel(p.Name, path.Child("name"))...)
		if seen[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		seen[p.Name] = true
	}
	errs = append(errs, validatePort(p.Port, path.Child("port"))...)
	errs = append(errs, oneOf(p.Protocol, path.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP,
		corev1.ProtocolUDP)...)
	if p.TargetPort.Type == intstr.Int {
		return append(errs, validatePort(p.TargetPort.IntVal, path.Child("targetPort"))...)
	}
	for _, msg := range utilvalidation.IsValidPortName(p.TargetPort.StrVal) {
		errs = append(errs, field.Invalid(path.Child("targetPort"), p.TargetPort.StrVal, msg))
	}
	return errs
}

func validatePort(port int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(path, port, msg))
	}
	return errs
}

func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	if NeedsClusterIP(&s.Spec) && NeedsClusterIP(&old.Spec) && old.Spec.ClusterIP != "" {
		if s.Spec.ClusterIP != old.Spec.ClusterIP {
			errs = append(errs, field.Invalid(specPath.Child("clusterIPs").Index(0), []string{s.Spec.ClusterIP},
				"may not change once set"))
		}
	}
	return append(errs, validateService(s, nil)...)
}

//lint:ignore SA1019 it is served
func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			setIfEmpty(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// Differs: forbidden addresses, such as loopback addresses, are not rejected.
//
//lint:ignore SA1019 it is served
func validateEndpoints(e, _ *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	for i := range e.Subsets {
		s, path := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range s.Addresses {
			errs = append(errs, validateAddress(&s.Addresses[j], path.Child("addresses").Index(j))...)
		}
		for j := range s.NotReadyAddresses {
			errs = append(errs, validateAddress(&s.NotReadyAddresses[j], path.Child("notReadyAddresses").Index(j))...)
		}
		for j, p := range s.Ports {
			path := path.Child("ports").Index(j)
			if p.Name == "" && len(s.Ports) > 1 {
				errs = append(errs, field.Required(path.Child("name"), ""))
			} else if p.Name != "" {
				errs = append(errs, validateLabel(p.Name, path.Child("name"))...)
			}
			errs = append(errs, validatePort(p.Port, path.Child("port"))...)
			errs = append(errs, oneOf(p.Protocol, path.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP,
				corev1.ProtocolUDP)...)
		}
	}
	return errs
}

//lint:ignore SA1019 it is served
func validateEndpointsUpdate(e, _ *corev1.Endpoints) field.ErrorList {
	return validateEndpoints(e, nil)
}

// validateAddress validates an address. Like upstream it does so twice, with different messages.
func validateAddress(a *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	_, err := netip.ParseAddr(a.IP)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("ip"), a.IP,
			"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
	}
	if a.Hostname != "" {
		errs = append(errs, validateLabel(a.Hostname, path.Child("hostname"))...)
	}
	if a.NodeName != nil {
		errs = append(errs, validateName(*a.NodeName, path.Child("nodeName"))...)
	}
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("ip"), a.IP, "must be a valid IP address"))
	}
	return errs
}
