package rules

import (
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateLease validates a lease.
//
// Upstream: pkg/apis/coordination/validation ValidateLeaseSpec.
func validateLease(lease, _ *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	spec := &lease.Spec
	if s := spec.LeaseDurationSeconds; s != nil && *s <= 0 {
		errs = append(errs, field.Invalid(specPath.Child("leaseDurationSeconds"), s, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(specPath.Child("leaseTransitions"), n, NegativeMsg))
	}
	strategy := ptr.Deref(spec.Strategy, "")
	path := specPath.Child("strategy", "strategy") // twice, as upstream
	switch {
	case spec.Strategy == nil:
	case strings.Contains(string(strategy), "/"):
		for _, msg := range utilvalidation.IsQualifiedName(string(strategy)) {
			errs = append(errs, field.Invalid(path, strategy, msg))
		}
	default:
		errs = append(errs, oneOf(strategy, path, coordinationv1.OldestEmulationVersion)...)
	}
	if ptr.Deref(spec.PreferredHolder, "") != "" && strategy == "" {
		errs = append(errs, field.Forbidden(specPath.Child("preferredHolder"),
			"may only be specified if `strategy` is defined"))
	}
	return errs
}

// prepareLeaseCreate drops the fields of the feature gate CoordinatedLeaderElection, which is off
// in 1.36.
func prepareLeaseCreate(_ metav1.Time, lease, _ *coordinationv1.Lease) {
	lease.Spec.Strategy, lease.Spec.PreferredHolder = nil, nil
}

func validateLeaseUpdate(lease, _ *coordinationv1.Lease) field.ErrorList {
	return validateLease(lease, nil)
}

// validateBudget validates a pod disruption budget.
//
// Upstream: pkg/apis/policy/validation ValidatePodDisruptionBudgetSpec.
func validateBudget(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	var errs field.ErrorList
	spec := &b.Spec
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(specPath, goFields{spec},
			"minAvailable and maxUnavailable cannot be both set"))
	}
	if least := spec.MinAvailable; least != nil {
		errs = append(errs, validatePortion(*least, specPath.Child("minAvailable"))...)
		errs = append(errs, validateWhole(*least, specPath.Child("minAvailable"))...)
	}
	if most := spec.MaxUnavailable; most != nil {
		errs = append(errs, validatePortion(*most, specPath.Child("maxUnavailable"))...)
		errs = append(errs, validateWhole(*most, specPath.Child("maxUnavailable"))...)
	}
	errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
		metav1validation.LabelSelectorValidationOptions{}, selectorPath)...)
	if p := spec.UnhealthyPodEvictionPolicy; p != nil {
		errs = append(errs, oneOf(*p, specPath.Child("unhealthyPodEvictionPolicy"), policyv1.AlwaysAllow,
			policyv1.IfHealthyBudget)...)
	}
	return errs
}

func validateBudgetUpdate(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	return validateBudget(b, nil)
}

func validateBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	s := &b.Status
	errs := metav1validation.ValidateConditions(s.Conditions, statusPath.Child("conditions"))
	return append(errs, validateNotNegative(statusPath, counted{"disruptionsAllowed", int64(s.DisruptionsAllowed)},
		counted{"currentHealthy", int64(s.CurrentHealthy)}, counted{"desiredHealthy", int64(s.DesiredHealthy)},
		counted{"expectedPods", int64(s.ExpectedPods)})...)
}

func prepareBudgetCreate(_ metav1.Time, b, _ *policyv1.PodDisruptionBudget) {
	b.Status, b.Generation = policyv1.PodDisruptionBudgetStatus{}, 1
}

func prepareBudgetUpdate(_ metav1.Time, b, old *policyv1.PodDisruptionBudget) {
	if !equality.Semantic.DeepEqual(b.Spec, old.Spec) {
		b.Generation = old.Generation + 1
	}
}

// Upstream: pkg/apis/scheduling, and the classes that the server creates.
const (
	priorityMax         = 1_000_000_000 // of user-defined classes
	systemClassPrefix   = "system-"
	systemPriorityMin   = 2 * priorityMax
	nodeCriticalClass   = "system-node-critical"
	clusterCritical     = "system-cluster-critical"
	nodeCriticalAbove   = 1000
	reservedPriorityMsg = "priority class names with 'system-' prefix are reserved for system use only. error: "
)

// SystemPriority returns the priority of a system priority class. The bool is false for other
// classes.
func SystemPriority(class string) (int32, bool) {
	switch class {
	case nodeCriticalClass:
		return systemPriorityMin + nodeCriticalAbove, true
	case clusterCritical:
		return systemPriorityMin, true
	}
	return 0, false
}

func defaultPriorityClass(c *schedulingv1.PriorityClass) {
	setIfNil(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}

// preparePriorityClassCreate sets the generation, which never grows.
func preparePriorityClassCreate(_ metav1.Time, c, _ *schedulingv1.PriorityClass) { c.Generation = 1 }

// validatePriorityClass validates a priority class.
//
// Upstream: pkg/apis/scheduling/validation ValidatePriorityClass.
func validatePriorityClass(c, _ *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	value, system := SystemPriority(c.Name)
	name := metaPath.Child("name")
	switch {
	case !strings.HasPrefix(c.Name, systemClassPrefix):
		if c.Value > priorityMax {
			errs = append(errs, field.Forbidden(field.NewPath("value"),
				"maximum allowed value of a user defined priority is 1000000000"))
		}
	case !system:
		errs = append(errs, field.Forbidden(name, reservedPriorityMsg+c.Name+" is not a known system priority class"))
	case c.Value != value:
		errs = append(errs, field.Forbidden(name,
			reservedPriorityMsg+"value of "+c.Name+" PriorityClass must be "+strconv.Itoa(int(value))))
	case c.GlobalDefault:
		errs = append(errs,
			field.Forbidden(name, reservedPriorityMsg+"globalDefault of "+c.Name+" PriorityClass must be false"))
	}
	if p := c.PreemptionPolicy; p != nil {
		errs = append(errs, validatePreemption(*p, field.NewPath("preemptionPolicy"))...)
	}
	return errs
}

func validatePreemption(p corev1.PreemptionPolicy, path *field.Path) field.ErrorList {
	switch p {
	case corev1.PreemptLowerPriority, corev1.PreemptNever:
		return nil
	case "":
		return field.ErrorList{field.Required(path, "")}
	}
	return field.ErrorList{field.NotSupported(path, p,
		[]string{string(corev1.PreemptLowerPriority), string(corev1.PreemptNever)})}
}

// validatePriorityClassUpdate validates that a class keeps its value.
//
// Upstream: pkg/apis/scheduling/validation ValidatePriorityClassUpdate.
func validatePriorityClassUpdate(c, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, immutable(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
