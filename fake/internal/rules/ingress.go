package rules

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// This file has the rules of ingresses and ingress classes.
//
// Upstream: pkg/registry/networking, ingress and ingressclass; pkg/apis/networking/validation.

const (
	ingressClassAnnotation = "kubernetes.io/ingress.class"
	ingressControllerMax   = 250
	dnsNameMsg             = "must be a DNS name, not an IP address"
)

// The sequences and endings that a path with a meaning for all controllers must not have.
var (
	pathSequences = []string{"//", "/./", "/../", "%2f", "%2F"}
	pathSuffixes  = []string{"/..", "/."}
)

func prepareIngressCreate(_ metav1.Time, i, _ *networkingv1.Ingress) {
	i.Status = networkingv1.IngressStatus{}
	i.Generation = 1
}

func prepareIngressUpdate(_ metav1.Time, i, old *networkingv1.Ingress) {
	if !equal(&i.Spec, &old.Spec) {
		i.Generation = old.Generation + 1
	}
}

func warnIngress(i, old *networkingv1.Ingress) []string {
	if _, ok := i.Annotations[ingressClassAnnotation]; old != nil || !ok || i.Spec.IngressClassName != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", ingressClassAnnotation)}
}

func validateIngress(i, _ *networkingv1.Ingress) field.ErrorList {
	errs := validateIngressSpec(&i.Spec, false, false)
	class, ok := i.Annotations[ingressClassAnnotation]
	if ok && i.Spec.IngressClassName != nil && class != *i.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(ingressClassAnnotation), class,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

// validateIngressUpdate allows the errors that the stored ingress has, as upstream does.
func validateIngressUpdate(i, old *networkingv1.Ingress) field.ErrorList {
	badSecret := slices.ContainsFunc(old.Spec.TLS, func(tls networkingv1.IngressTLS) bool {
		return len(validateTLSSecret(tls.SecretName, nil)) > 0
	})
	badWildcard := slices.ContainsFunc(old.Spec.Rules, func(r networkingv1.IngressRule) bool {
		return strings.Contains(r.Host, "*") && len(validateIngressRule(&r, specPath)) > 0
	})
	return validateIngressSpec(&i.Spec, badSecret, badWildcard)
}

func validateIngressSpec(spec *networkingv1.IngressSpec, badSecret, badWildcard bool) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(specPath, goFields{spec.Rules}, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, specPath.Child("defaultBackend"))...)
	}
	for i := range spec.Rules {
		rule, path := &spec.Rules[i], specPath.Child("rules").Index(i)
		errs = append(errs, validateIngressHost(rule.Host, path.Child("host"))...)
		if !badWildcard || !strings.Contains(rule.Host, "*") {
			errs = append(errs, validateIngressRule(rule, path)...)
		}
	}
	for i, tls := range spec.TLS {
		path := specPath.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			errs = append(errs, validateHostPattern(host, path.Child("hosts").Index(j))...)
		}
		if !badSecret {
			errs = append(errs, validateTLSSecret(tls.SecretName, path.Child("secretName"))...)
		}
	}
	if spec.IngressClassName != nil {
		errs = append(errs, validateName(*spec.IngressClassName, specPath.Child("ingressClassName"))...)
	}
	return errs
}

// validateTLSSecret validates the name of a secret, which may be empty.
func validateTLSSecret(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	return validateName(name, path)
}

func validateIngressHost(host string, path *field.Path) field.ErrorList {
	if host == "" {
		return nil
	}
	var errs field.ErrorList
	if netutils.ParseIPSloppy(host) != nil {
		errs = append(errs, field.Invalid(path, host, dnsNameMsg))
	}
	return append(errs, validateHostPattern(host, path)...)
}

// validateHostPattern validates a host name whose first label may be a wildcard.
func validateHostPattern(host string, path *field.Path) field.ErrorList {
	check := utilvalidation.IsDNS1123Subdomain
	if strings.Contains(host, "*") {
		check = utilvalidation.IsWildcardDNS1123Subdomain
	}
	var errs field.ErrorList
	for _, msg := range check(host) {
		errs = append(errs, field.Invalid(path, host, msg))
	}
	return errs
}

func validateIngressRule(rule *networkingv1.IngressRule, path *field.Path) field.ErrorList {
	if rule.HTTP == nil {
		return nil
	}
	var errs field.ErrorList
	path = path.Child("http", "paths")
	if len(rule.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	for i := range rule.HTTP.Paths {
		errs = append(errs, validateHTTPPath(&rule.HTTP.Paths[i], path.Index(i))...)
	}
	return errs
}

func validateHTTPPath(p *networkingv1.HTTPIngressPath, at *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(at.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	invalid := func(format string, args ...any) {
		errs = append(errs, field.Invalid(at.Child("path"), p.Path, fmt.Sprintf(format, args...)))
	}
	absolute := strings.HasPrefix(p.Path, "/")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !absolute {
			invalid("must be an absolute path")
		}
		for _, s := range pathSequences {
			if strings.Contains(p.Path, s) {
				invalid("must not contain '%s'", s)
			}
		}
		for _, s := range pathSuffixes {
			if strings.HasSuffix(p.Path, s) {
				invalid("cannot end with '%s'", s)
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !absolute {
			invalid("must be an absolute path")
		}
	default:
		errs = append(errs, oneOf(*p.PathType, at.Child("pathType"), networkingv1.PathTypeExact,
			networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific)...)
	}
	return append(errs, validateBackend(&p.Backend, at.Child("backend"))...)
}

func validateBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return validateReference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, path.Child("resource"))
	case b.Service != nil:
		return validateServiceBackend(b.Service, path)
	default:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
}

func validateServiceBackend(s *networkingv1.IngressServiceBackend, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if at := path.Child("service", "name"); s.Name == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		for _, msg := range validation.NameIsDNSLabel(s.Name, false) {
			errs = append(errs, field.Invalid(at, s.Name, msg))
		}
	}
	name, number := s.Port.Name, s.Port.Number
	switch port := path.Child("service", "port"); {
	case name != "" && number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case name != "":
		for _, msg := range utilvalidation.IsValidPortName(name) {
			errs = append(errs, field.Invalid(port.Child("name"), name, msg))
		}
	case number != 0:
		errs = append(errs, validatePort(number, port.Child("number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

// validateReference validates a reference to an object of any kind.
func validateReference(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		for _, msg := range utilvalidation.IsDNS1123Subdomain(*group) {
			errs = append(errs, field.Invalid(path.Child("apiGroup"), *group, msg))
		}
	}
	for _, f := range []named{{"kind", kind}, {"name", name}} {
		errs = append(errs, validatePathSegment(f.value, path.Child(f.name))...)
	}
	return errs
}

// validatePathSegment validates a required field that may be an element of a URL's path.
func validatePathSegment(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range pathSegment(value, false) {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func validateIngressStatus(i, old *networkingv1.Ingress) field.ErrorList {
	var known []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		known = append(known, in.IP)
	}
	var errs field.ErrorList
	for j, in := range i.Status.LoadBalancer.Ingress {
		path := field.NewPath("status", "loadBalancer", "ingress").Index(j)
		if in.IP != "" {
			errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Child("ip"), in.IP, true, known)...)
		}
		if in.Hostname == "" {
			continue
		}
		for _, msg := range utilvalidation.IsDNS1123Subdomain(in.Hostname) {
			errs = append(errs, field.Invalid(path.Child("hostname"), in.Hostname, msg))
		}
		if netutils.ParseIPSloppy(in.Hostname) != nil {
			errs = append(errs, field.Invalid(path.Child("hostname"), in.Hostname, dnsNameMsg))
		}
	}
	return errs
}

func defaultIngressClass(c *networkingv1.IngressClass) {
	if c.Spec.Parameters != nil {
		setIfNil(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func prepareIngressClassCreate(_ metav1.Time, c, _ *networkingv1.IngressClass) { c.Generation = 1 }

func prepareIngressClassUpdate(_ metav1.Time, c, old *networkingv1.IngressClass) {
	if !equality.Semantic.DeepEqual(c.Spec, old.Spec) {
		c.Generation = old.Generation + 1
	}
}

func validateIngressClass(c, _ *networkingv1.IngressClass) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("controller")
	if len(c.Spec.Controller) > ingressControllerMax {
		errs = append(errs, field.TooLong(path, "", ingressControllerMax))
	}
	errs = append(errs, utilvalidation.IsDomainPrefixedPath(path, c.Spec.Controller)...)
	if c.Spec.Parameters != nil {
		errs = append(errs, validateClassParameters(c.Spec.Parameters, specPath.Child("parameters"))...)
	}
	return errs
}

func validateIngressClassUpdate(c, old *networkingv1.IngressClass) field.ErrorList {
	return append(immutable(c.Spec.Controller, old.Spec.Controller, specPath.Child("controller")), validateIngressClass(c, nil)...)
}

func validateClassParameters(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	errs := validateReference(p.APIGroup, p.Kind, p.Name, path)
	if p.Scope == nil {
		return append(errs, field.Required(path.Child("scope"), ""))
	}
	const own, all = networkingv1.IngressClassParametersReferenceScopeNamespace, networkingv1.IngressClassParametersReferenceScopeCluster
	at := path.Child("namespace")
	switch {
	case *p.Scope != own && *p.Scope != all:
		errs = append(errs, oneOf(*p.Scope, path.Child("scope"), all, own)...)
	case *p.Scope == own && p.Namespace == nil:
		errs = append(errs, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == own:
		for _, msg := range validation.ValidateNamespaceName(*p.Namespace, false) {
			errs = append(errs, field.Invalid(at, *p.Namespace, msg))
		}
	case p.Namespace != nil:
		errs = append(errs, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
	}
	return errs
}
