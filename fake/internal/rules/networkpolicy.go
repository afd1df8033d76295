package rules

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// This file has the rules of network policies.
//
// Upstream: pkg/registry/networking/networkpolicy; pkg/apis/networking/validation
// ValidateNetworkPolicy.

func defaultNetworkPolicy(p *networkingv1.NetworkPolicy) {
	for _, ports := range policyPorts(p) {
		for i := range ports {
			setIfNil(&ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
	if len(p.Spec.PolicyTypes) > 0 {
		return
	}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

// policyPorts returns the ports of each rule of a policy.
func policyPorts(p *networkingv1.NetworkPolicy) [][]networkingv1.NetworkPolicyPort {
	var all [][]networkingv1.NetworkPolicyPort
	for i := range p.Spec.Ingress {
		all = append(all, p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		all = append(all, p.Spec.Egress[i].Ports)
	}
	return all
}

func prepareNetworkPolicyCreate(_ metav1.Time, p, _ *networkingv1.NetworkPolicy) { p.Generation = 1 }

func prepareNetworkPolicyUpdate(_ metav1.Time, p, old *networkingv1.NetworkPolicy) {
	if !reflect.DeepEqual(p.Spec, old.Spec) {
		p.Generation = old.Generation + 1
	}
}

// A policyPeer is a peer of a rule of a policy, with its path.
type policyPeer struct {
	*networkingv1.NetworkPolicyPeer
	path *field.Path
}

// peersOf returns the peers of a rule.
func peersOf(peers []networkingv1.NetworkPolicyPeer, path *field.Path) []policyPeer {
	all := make([]policyPeer, len(peers))
	for i := range peers {
		all[i] = policyPeer{&peers[i], path.Index(i)}
	}
	return all
}

// policyPeers returns the peers of all rules of a policy.
func policyPeers(p *networkingv1.NetworkPolicy) []policyPeer {
	var all []policyPeer
	for i, rule := range p.Spec.Ingress {
		all = append(all, peersOf(rule.From, specPath.Child("ingress").Index(i).Child("from"))...)
	}
	for i, rule := range p.Spec.Egress {
		all = append(all, peersOf(rule.To, specPath.Child("egress").Index(i).Child("to"))...)
	}
	return all
}

func warnNetworkPolicy(p, _ *networkingv1.NetworkPolicy) []string {
	var out []string
	for _, peer := range policyPeers(p) {
		if peer.IPBlock == nil {
			continue
		}
		path := peer.path.Child("ipBlock")
		out = append(out, utilvalidation.GetWarningsForCIDR(path.Child("cidr"), peer.IPBlock.CIDR)...)
		for i, except := range peer.IPBlock.Except {
			out = append(out, utilvalidation.GetWarningsForCIDR(path.Child("except").Index(i), except)...)
		}
	}
	return out
}

// validateNetworkPolicy validates a policy. What the stored policy has of invalid addresses and
// selectors may stay.
func validateNetworkPolicy(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	options := metav1validation.LabelSelectorValidationOptions{}
	var known []string
	if old != nil {
		options.AllowInvalidLabelValueInSelector = len(metav1validation.ValidateLabelSelector(&old.Spec.PodSelector, options, nil)) > 0
		for _, peer := range policyPeers(old) {
			if peer.IPBlock != nil {
				known = append(append(known, peer.IPBlock.CIDR), peer.IPBlock.Except...)
			}
		}
	}
	errs := metav1validation.ValidateLabelSelector(&p.Spec.PodSelector, options, specPath.Child("podSelector"))
	for i, rule := range p.Spec.Ingress {
		path := specPath.Child("ingress").Index(i)
		errs = append(errs, validatePolicyPorts(rule.Ports, path.Child("ports"))...)
		errs = append(errs, validatePeers(peersOf(rule.From, path.Child("from")), options, known)...)
	}
	for i, rule := range p.Spec.Egress {
		path := specPath.Child("egress").Index(i)
		errs = append(errs, validatePolicyPorts(rule.Ports, path.Child("ports"))...)
		errs = append(errs, validatePeers(peersOf(rule.To, path.Child("to")), options, known)...)
	}
	return append(errs, validatePolicyTypes(p.Spec.PolicyTypes, specPath.Child("policyTypes"))...)
}

func validatePolicyTypes(types []networkingv1.PolicyType, path *field.Path) field.ErrorList {
	if len(types) > 2 {
		return field.ErrorList{field.Invalid(path, types, "may not specify more than two policyTypes")}
	}
	var errs field.ErrorList
	for i, t := range types {
		errs = append(errs, oneOfOrdered(string(t), path.Index(i), string(networkingv1.PolicyTypeIngress),
			string(networkingv1.PolicyTypeEgress))...)
	}
	return errs
}

func validatePolicyPorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, p := range ports {
		path := path.Index(i)
		if p.Protocol != nil {
			errs = append(errs, oneOfOrdered(string(*p.Protocol), path.Child("protocol"), string(corev1.ProtocolTCP),
				string(corev1.ProtocolUDP), string(corev1.ProtocolSCTP))...)
		}
		errs = append(errs, validatePortRange(p.Port, p.EndPort, path)...)
	}
	return errs
}

func validatePortRange(port *intstr.IntOrString, end *int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	last := path.Child("endPort")
	switch {
	case port == nil && end != nil:
		errs = append(errs, field.Invalid(last, *end, "may not be specified when `port` is not specified"))
	case port == nil:
	case port.Type == intstr.Int:
		errs = append(errs, validatePort(port.IntVal, path.Child("port"))...)
		if end == nil {
			break
		}
		if *end < port.IntVal {
			errs = append(errs, field.Invalid(last, port.IntVal, "must be greater than or equal to `port`"))
		}
		errs = append(errs, validatePort(*end, last)...)
	default:
		if end != nil {
			errs = append(errs, field.Invalid(last, *end, "may not be specified when `port` is non-numeric"))
		}
		for _, msg := range utilvalidation.IsValidPortName(port.StrVal) {
			errs = append(errs, field.Invalid(path.Child("port"), port.StrVal, msg))
		}
	}
	return errs
}

func validatePeers(
	peers []policyPeer, options metav1validation.LabelSelectorValidationOptions, known []string,
) field.ErrorList {
	var errs field.ErrorList
	for _, p := range peers {
		others := 0
		for _, s := range []struct {
			name string
			of   *metav1.LabelSelector
		}{{"podSelector", p.PodSelector}, {"namespaceSelector", p.NamespaceSelector}} {
			if s.of != nil {
				others++
				errs = append(errs, metav1validation.ValidateLabelSelector(s.of, options, p.path.Child(s.name))...)
			}
		}
		if p.IPBlock != nil {
			errs = append(errs, validateIPBlock(p.IPBlock, known, p.path.Child("ipBlock"))...)
		}
		switch {
		case p.IPBlock == nil && others == 0:
			errs = append(errs, field.Required(p.path, "must specify a peer"))
		case p.IPBlock != nil && others > 0:
			errs = append(errs, field.Forbidden(p.path, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

// validateIPBlock validates a block of addresses and what is excepted from it.
func validateIPBlock(b *networkingv1.IPBlock, known []string, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := utilvalidation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, known)
	_, all, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	bits, _ := all.Mask.Size()
	for i, text := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(at, text, true, known)...)
		_, except, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if own, _ := except.Mask.Size(); !all.Contains(except.IP) || bits >= own {
			errs = append(errs, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
