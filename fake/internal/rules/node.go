package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	taintsPath      = metaPath.Child("taints")
	podCIDRsPath    = specPath.Child("podCIDRs")
	capacityPath    = field.NewPath("status", "capacity")
	allocatablePath = field.NewPath("status", "allocatable")
)

// validateNode validates a node. The paths that begin with metadata are upstream's.
//
// Upstream: pkg/apis/core/validation ValidateNode.
// Differs: annotations, swap and declared features are not validated.
func validateNode(node, _ *corev1.Node) field.ErrorList {
	errs := validateTaints(node.Spec.Taints, taintsPath)
	errs = append(errs, validateNodeResources(node)...)
	path := podCIDRsPath
	families := map[bool]bool{}
	for i, cidr := range node.Spec.PodCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), cidr,
				"must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
		}
		families[prefix.Addr().Is4()] = true
	}
	if n := len(node.Spec.PodCIDRs); n > 1 && (n > 2 || len(families) < 2) {
		errs = append(errs, field.Invalid(path, node.Spec.PodCIDRs,
			"may specify no more than one CIDR for each IP family"))
	}
	return errs
}

func validateNodeResources(node *corev1.Node) field.ErrorList {
	errs := validateResources(node.Status.Capacity, capacityPath)
	return append(errs, validateResources(node.Status.Allocatable, allocatablePath)...)
}

// validateResources validates resource names and quantities. Countable resources must be integers.
//
// Upstream: pkg/apis/core/validation ValidateResourceQuantityValue.
func validateResources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !wrongResources(list) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		errs = append(errs, validateResource(name, list[name], path.Child(string(name)))...)
	}
	return errs
}

// wrongResources reports whether any quantity is invalid.
func wrongResources(list corev1.ResourceList) bool {
	for name, q := range list {
		if q.Sign() < 0 || isCounted(name) && q.MilliValue()%1000 != 0 {
			return true
		}
	}
	return false
}

// isCounted reports whether a resource has integer quantities only.
func isCounted(name corev1.ResourceName) bool {
	return slices.Contains(countedResources, name) || strings.HasPrefix(string(name), "count/") || isExtended(name)
}

// countedResources are the resources that have integer quantities only.
var countedResources = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

func validateResource(name corev1.ResourceName, q apiresource.Quantity, path *field.Path) field.ErrorList {
	errs := notNegative(q, path)
	if isCounted(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q.String(), "must be an integer"))
	}
	return errs
}

// isExtended reports whether a resource is an extended resource.
//
// Upstream: pkg/apis/core/v1/helper IsExtendedResourceName.
func isExtended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(taints) == 0 {
		return nil
	}
	type pair struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[pair]bool{}
	for i, t := range taints {
		path := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
		if msgs := utilvalidation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, strings.Join(msgs, ";")))
		}
		errs = append(errs, validateEffect(t.Effect, path.Child("effect"))...)
		if at := (pair{t.Key, t.Effect}); seen[at] {
			twice := field.Duplicate(path, goFields{t})
			twice.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, twice)
		} else {
			seen[at] = true
		}
	}
	return errs
}

func validateEffect(effect corev1.TaintEffect, path *field.Path) field.ErrorList {
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	case "":
		return field.ErrorList{field.Required(path, "")}
	}
	return field.ErrorList{field.NotSupported(path, effect, []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	})}
}

// validateNodeUpdate validates an update of a node, through the node itself or its status.
//
// Upstream: pkg/apis/core/validation ValidateNodeUpdate, after ValidateNode.
func validateNodeUpdate(node, old *corev1.Node) field.ErrorList {
	errs := validateNode(node, nil)
	return append(errs, validateNodeChange(node, old)...)
}

// validateNodeChange is the part that also applies to a write of the status.
func validateNodeChange(node, old *corev1.Node) field.ErrorList {
	const onceMsg = "node updates may not change %s except from \"\" to valid"
	errs := validateNodeResources(node)
	seen := map[corev1.NodeAddress]bool{}
	for i, address := range node.Status.Addresses {
		if seen[address] {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), goFields{address}))
		}
		seen[address] = true
	}
	cidrs, oldCIDRs := node.Spec.PodCIDRs, old.Spec.PodCIDRs
	for i := range oldCIDRs {
		if len(cidrs) != len(oldCIDRs) || cidrs[i] != oldCIDRs[i] {
			errs = append(errs, field.Forbidden(specPath.Child("podCIDRs"), fmt.Sprintf(onceMsg, "podCIDR")))
		}
		if len(cidrs) != len(oldCIDRs) {
			break
		}
	}
	if id := old.Spec.ProviderID; id != "" && id != node.Spec.ProviderID {
		errs = append(errs, field.Forbidden(specPath.Child("providerID"), fmt.Sprintf(onceMsg, "providerID")))
	}
	errs = append(errs, validateTaints(node.Spec.Taints, taintsPath)...)
	if node.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(specPath.Child("externalID"), "may not be updated"))
	}
	return errs
}

// validateNamespace validates a namespace.
//
// Upstream: pkg/apis/core/validation ValidateNamespace.
func validateNamespace(ns, _ *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for _, f := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(string(f), specPath.Child("finalizers"))...)
	}
	return errs
}

func validateNamespaceUpdate(ns, _ *corev1.Namespace) field.ErrorList {
	return validateNamespace(ns, nil)
}

// ValidateNamespaceFinalize validates a write of the finalizers in a namespace's spec.
//
// Upstream: pkg/apis/core/validation ValidateNamespaceFinalizeUpdate.
func ValidateNamespaceFinalize(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, f := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(string(f), specPath.Child("finalizers").Index(i))...)
	}
	return errs
}

// validateNamespaceStatus validates that the phase agrees with the deletion timestamp.
//
// Upstream: pkg/apis/core/validation ValidateNamespaceStatusUpdate.
func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	switch going := !ns.DeletionTimestamp.IsZero(); {
	case !going && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase,
			"may only be 'Active' if `deletionTimestamp` is empty")}
	case going && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase,
			"may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
