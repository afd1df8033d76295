package rules

import (
	"bytes"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file validates the kinds that create pods, except stateful sets.
//
// Upstream: pkg/apis/apps/validation; pkg/apis/core/validation, of replication controllers.

const (
	badSelectorMsg = "invalid label selector"
	ofStatus       = "status.replicas"
)

var statusPath = field.NewPath("status")

func validateDeployment(d, _ *appsv1.Deployment) field.ErrorList {
	spec := &d.Spec
	errs := validateNotNegative(specPath, countOf("replicas", spec.Replicas))
	errs = append(errs, validateReplicated(spec.Selector, &spec.Template)...)
	errs = append(errs, validateDeploymentStrategy(&spec.Strategy, specPath.Child("strategy"))...)
	errs = append(errs, validateNotNegative(specPath, counted{"minReadySeconds", int64(spec.MinReadySeconds)},
		countOf("revisionHistoryLimit", spec.RevisionHistoryLimit),
		countOf("progressDeadlineSeconds", spec.ProgressDeadlineSeconds))...)
	if s := spec.ProgressDeadlineSeconds; s != nil && *s <= spec.MinReadySeconds {
		errs = append(errs, field.Invalid(specPath.Child("progressDeadlineSeconds"), s,
			"must be greater than minReadySeconds"))
	}
	return errs
}

// validateReplicated validates what Deployment and ReplicaSet have in common.
func validateReplicated(s *metav1.LabelSelector, t *corev1.PodTemplateSpec) field.ErrorList {
	selector, errs := parseSelector(s, "deployment", badSelectorMsg)
	if selector != nil {
		errs = append(errs, validateSelects(selector, t)...)
		errs = append(errs, validateTemplate(t)...)
		errs = append(errs, validateRestartAlways(t, "ReplicaSet")...)
	}
	return errs
}

func validateDeploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"),
				fmt.Sprintf("may not be specified when strategy `type` is '%s'",
					appsv1.RecreateDeploymentStrategyType))}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
	default:
		return field.ErrorList{field.NotSupported(path, goFields{s}, []string{
			string(appsv1.RecreateDeploymentStrategyType), string(appsv1.RollingUpdateDeploymentStrategyType),
		})}
	}
	path = path.Child("rollingUpdate")
	fewer, more := *s.RollingUpdate.MaxUnavailable, *s.RollingUpdate.MaxSurge
	errs := validatePortion(fewer, path.Child("maxUnavailable"))
	errs = append(errs, validatePortion(more, path.Child("maxSurge"))...)
	if portion(fewer) == 0 && portion(more) == 0 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), fewer, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, validateWhole(fewer, path.Child("maxUnavailable"))...)
}

func validateDeploymentUpdate(d, old *appsv1.Deployment) field.ErrorList {
	return append(validateDeployment(d, nil), immutable(d.Spec.Selector, old.Spec.Selector, selectorPath)...)
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	s := &d.Status
	updated := counted{"updatedReplicas", int64(s.UpdatedReplicas)}
	ready := counted{"readyReplicas", int64(s.ReadyReplicas)}
	available := counted{"availableReplicas", int64(s.AvailableReplicas)}
	errs := validateNotNegative(statusPath, counted{"observedGeneration", s.ObservedGeneration},
		counted{"replicas", int64(s.Replicas)},
		updated, ready, available, counted{"unavailableReplicas", int64(s.UnavailableReplicas)},
		countOf("terminatingReplicas", s.TerminatingReplicas), countOf("collisionCount", s.CollisionCount))
	errs = append(errs, validateAtMost(statusPath, int64(s.Replicas), ofStatus, updated, ready, available)...)
	errs = append(errs, validateAtMost(statusPath, int64(s.ReadyReplicas), "readyReplicas", available)...)
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount)...)
}

func validateReplicaSet(r, _ *appsv1.ReplicaSet) field.ErrorList {
	errs := validateNotNegative(specPath, countOf("replicas", r.Spec.Replicas),
		counted{"minReadySeconds", int64(r.Spec.MinReadySeconds)})
	return append(errs, validateReplicated(r.Spec.Selector, &r.Spec.Template)...)
}

func validateReplicaSetUpdate(r, old *appsv1.ReplicaSet) field.ErrorList {
	return append(validateReplicaSet(r, nil), immutable(r.Spec.Selector, old.Spec.Selector, selectorPath)...)
}

func validateReplicaSetStatus(r, _ *appsv1.ReplicaSet) field.ErrorList {
	s := &r.Status
	return validateReplicas(int64(s.Replicas), s.ObservedGeneration, s.TerminatingReplicas,
		int64(s.FullyLabeledReplicas), int64(s.ReadyReplicas), int64(s.AvailableReplicas))
}

// validateReplicas validates the status of a ReplicaSet or a ReplicationController.
func validateReplicas(all, generation int64, terminating *int32, labelled, ready, available int64) field.ErrorList {
	some := []counted{{"fullyLabeledReplicas", labelled}, {"readyReplicas", ready}, {"availableReplicas", available}}
	errs := validateNotNegative(statusPath, counted{"replicas", all})
	errs = append(errs, validateNotNegative(statusPath, some...)...)
	errs = append(errs, validateNotNegative(statusPath, counted{"observedGeneration", generation},
		countOf("terminatingReplicas", terminating))...)
	errs = append(errs, validateAtMost(statusPath, all, ofStatus, some...)...)
	return append(errs, validateAtMost(statusPath, ready, "readyReplicas", some[2])...)
}

func validateDaemonSet(d, _ *appsv1.DaemonSet) field.ErrorList {
	s, t := d.Spec.Selector, &d.Spec.Template
	errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, selectorPath)
	if selector, err := metav1.LabelSelectorAsSelector(s); err == nil && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(templatePath.Child("metadata", "labels"), t.Labels, selectorMsg))
	}
	if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(selectorPath, s, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, validateTemplate(t)...)
	errs = append(errs, validateRestartAlways(t, "DaemonSet")...)
	errs = append(errs, validateNotNegative(specPath, counted{"minReadySeconds", int64(d.Spec.MinReadySeconds)})...)
	errs = append(errs, validateDaemonStrategy(&d.Spec.UpdateStrategy, specPath.Child("updateStrategy"))...)
	return append(errs, validateNotNegative(specPath, countOf("revisionHistoryLimit", d.Spec.RevisionHistoryLimit))...)
}

func validateDaemonStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
	default:
		return field.ErrorList{field.NotSupported(path, goFields{s}, []string{
			string(appsv1.RollingUpdateDaemonSetStrategyType), string(appsv1.OnDeleteDaemonSetStrategyType),
		})}
	}
	path = path.Child("rollingUpdate")
	fewer, more := *s.RollingUpdate.MaxUnavailable, *s.RollingUpdate.MaxSurge
	errs := validatePortion(fewer, path.Child("maxUnavailable"))
	errs = append(errs, validatePortion(more, path.Child("maxSurge"))...)
	errs = append(errs, validateWhole(fewer, path.Child("maxUnavailable"))...)
	errs = append(errs, validateWhole(more, path.Child("maxSurge"))...)
	switch less, extra := portion(fewer) != 0, portion(more) != 0; {
	case less && extra:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), more,
			"may not be set when maxUnavailable is non-zero"))
	case !less && !extra:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateDaemonSetUpdate(d, old *appsv1.DaemonSet) field.ErrorList {
	return append(immutable(d.Spec.Selector, old.Spec.Selector, selectorPath), validateDaemonSet(d, nil)...)
}

func validateDaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	s := &d.Status
	errs := validateNotNegative(statusPath, counted{"currentNumberScheduled", int64(s.CurrentNumberScheduled)},
		counted{"numberMisscheduled", int64(s.NumberMisscheduled)},
		counted{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)}, counted{
			"numberReady",
			int64(s.NumberReady),
		},
		counted{"observedGeneration", s.ObservedGeneration},
		counted{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)}, counted{
			"numberAvailable",
			int64(s.NumberAvailable),
		},
		counted{"numberUnavailable", int64(s.NumberUnavailable)}, countOf("collisionCount", s.CollisionCount))
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount)...)
}

func validateReplicationController(r, _ *corev1.ReplicationController) field.ErrorList {
	spec := &r.Spec
	errs := validateNotNegative(specPath, counted{"minReadySeconds", int64(spec.MinReadySeconds)})
	errs = append(errs, requireSome(selectorPath, len(spec.Selector))...)
	errs = append(errs, validateNotNegative(specPath, countOf("replicas", spec.Replicas))...)
	if spec.Template == nil {
		return append(errs, field.Required(templatePath, ""))
	}
	errs = append(errs, validateSelects(labels.SelectorFromSet(spec.Selector), spec.Template)...)
	errs = append(errs, validateTemplate(spec.Template)...)
	return append(errs, validateRestartAlways(spec.Template, "ReplicationController")...)
}

func validateReplicationControllerUpdate(r, _ *corev1.ReplicationController) field.ErrorList {
	return validateReplicationController(r, nil)
}

func validateReplicationControllerStatus(r, _ *corev1.ReplicationController) field.ErrorList {
	s := &r.Status
	return validateReplicas(int64(s.Replicas), s.ObservedGeneration, nil,
		int64(s.FullyLabeledReplicas), int64(s.ReadyReplicas), int64(s.AvailableReplicas))
}

func validateRevision(r, _ *appsv1.ControllerRevision) field.ErrorList {
	errs := validateNotNegative(nil, counted{"revision", r.Revision})
	var v any
	switch err := json.Unmarshal(r.Data.Raw, &v); {
	case r.Data.Raw == nil:
		errs = append(errs, field.Required(dataPath, "data is mandatory"))
	case err != nil:
		errs = append(errs, field.Invalid(dataPath, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
	case v == nil:
		errs = append(errs, field.Required(dataPath, "data is mandatory"))
	default:
		if _, ok := v.(map[string]any); !ok {
			errs = append(errs, field.Required(dataPath, "data must be a valid JSON object"))
		}
	}
	return errs
}

func validateRevisionUpdate(r, old *appsv1.ControllerRevision) field.ErrorList {
	errs := validateNotNegative(nil, counted{"revision", r.Revision})
	if !bytes.Equal(r.Data.Raw, old.Data.Raw) {
		errs = append(errs, field.Invalid(dataPath, r.Data, immutableMsg))
	}
	return errs
}
