package rules

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const statefulSetSpecMsg = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', " +
	"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"

// statefulSetName returns what is wrong with a set's name, which is part of its pods' host names.
//
// Upstream: pkg/apis/apps/validation ValidateStatefulSetName.
func statefulSetName(name string, prefix bool) []string {
	if prefix {
		name = trimDash(name)
	}
	return utilvalidation.IsDNS1123Label(name)
}

func trimDash(name string) string {
	if n := len(name); n > 1 && name[n-1] == '-' {
		return name[:n-2] + "a"
	}
	return name
}

// validateStatefulSet validates a set to be created.
//
// Upstream: pkg/apis/apps/validation ValidateStatefulSet.
func validateStatefulSet(set, _ *appsv1.StatefulSet) field.ErrorList {
	return validateStatefulSetSpec(&set.Spec, true)
}

// validateStatefulSetSpec validates a set's spec. Immutable fields are validated only if isNew.
func validateStatefulSetSpec(spec *appsv1.StatefulSetSpec, isNew bool) field.ErrorList {
	var errs field.ErrorList
	switch spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(specPath.Child("podManagementPolicy"), spec.PodManagementPolicy,
			fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	errs = append(errs, validateSetStrategy(&spec.UpdateStrategy, specPath.Child("updateStrategy"))...)
	errs = append(errs, validateRetention(spec.PersistentVolumeClaimRetentionPolicy,
		specPath.Child("persistentVolumeClaimRetentionPolicy"))...)
	if isNew {
		for i := range spec.VolumeClaimTemplates {
			paths := pathsAt(specPath.Child("volumeClaimTemplates").Index(i).Child("spec"))
			errs = append(errs, validateClaimSpec(&spec.VolumeClaimTemplates[i].Spec, &paths)...)
		}
	}
	errs = append(errs, validateNotNegative(specPath, countOf("replicas", spec.Replicas),
		counted{"minReadySeconds", int64(spec.MinReadySeconds)})...)
	if spec.Ordinals != nil {
		errs = append(errs, validateNotNegative(specPath, counted{"ordinals.start", int64(spec.Ordinals.Start)})...)
	}
	if isNew && spec.ServiceName != "" {
		errs = append(errs, validateLabel(spec.ServiceName, specPath.Child("serviceName"))...)
	}
	selector, bad := parseSelector(spec.Selector, "statefulset", "")
	errs = append(errs, bad...)
	if selector != nil {
		errs = append(errs, validateSelects(selector, &spec.Template)...)
		errs = append(errs, validateTemplate(templateWithClaims(spec))...)
		errs = append(errs, metav1validation.ValidateLabels(spec.Template.Labels, templatePath.Child("labels"))...)
	}
	return append(errs, validateRestartAlways(&spec.Template, "StatefulSet")...)
}

// templateWithClaims returns the pod template with a volume for each claim template.
func templateWithClaims(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	if len(spec.VolumeClaimTemplates) == 0 {
		return &spec.Template
	}
	t := spec.Template
	t.Spec.Volumes = nil
	own := map[string]bool{}
	for _, claim := range spec.VolumeClaimTemplates {
		if own[claim.Name] {
			continue
		}
		own[claim.Name] = true
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	for _, v := range spec.Template.Spec.Volumes {
		if !own[v.Name] {
			t.Spec.Volumes = append(t.Spec.Volumes, v)
		}
	}
	return &t
}

func validateSetStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(path.Child("rollingUpdate"), goFields{s.RollingUpdate},
				fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
	default:
		return field.ErrorList{field.Invalid(path, goFields{s}, fmt.Sprintf("must be '%s' or '%s'",
			appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
	}
	if s.RollingUpdate == nil {
		return nil
	}
	path = path.Child("rollingUpdate")
	errs := validateNotNegative(path, countOf("partition", s.RollingUpdate.Partition))
	if most := s.RollingUpdate.MaxUnavailable; most != nil {
		path := path.Child("maxUnavailable")
		errs = append(errs, validatePortion(*most, path)...)
		if portion(*most) == 0 {
			errs = append(errs, field.Invalid(path, *most, "cannot be 0"))
		}
		errs = append(errs, validateWhole(*most, path)...)
	}
	return errs
}

func validateRetention(p *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	types := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	if !slices.Contains(types, p.WhenDeleted) {
		errs = append(errs, field.NotSupported(path.Child("whenDeleted"), p.WhenDeleted, types))
	}
	if !slices.Contains(types, p.WhenScaled) {
		errs = append(errs, field.NotSupported(path.Child("whenScaled"), p.WhenScaled, types))
	}
	return errs
}

// validateStatefulSetUpdate validates an update of a set.
//
// Upstream: pkg/apis/apps/validation ValidateStatefulSetUpdate.
func validateStatefulSetUpdate(set, old *appsv1.StatefulSet) field.ErrorList {
	errs := validateStatefulSetSpec(&set.Spec, false)
	spec, oldSpec := set.Spec, &old.Spec
	spec.Replicas, spec.Template, spec.UpdateStrategy = oldSpec.Replicas, oldSpec.Template, oldSpec.UpdateStrategy
	spec.MinReadySeconds, spec.Ordinals, spec.RevisionHistoryLimit = oldSpec.MinReadySeconds, oldSpec.Ordinals, oldSpec.RevisionHistoryLimit
	spec.PersistentVolumeClaimRetentionPolicy = oldSpec.PersistentVolumeClaimRetentionPolicy
	if !equality.Semantic.DeepEqual(spec, *oldSpec) {
		errs = append(errs, field.Forbidden(specPath, statefulSetSpecMsg))
	}
	return errs
}

// validateStatefulSetStatus validates a set's status.
//
// Upstream: pkg/apis/apps/validation ValidateStatefulSetStatusUpdate.
func validateStatefulSetStatus(set, old *appsv1.StatefulSet) field.ErrorList {
	s, path := &set.Status, field.NewPath("status")
	ready := counted{"readyReplicas", int64(s.ReadyReplicas)}
	current := counted{"currentReplicas", int64(s.CurrentReplicas)}
	updated := counted{"updatedReplicas", int64(s.UpdatedReplicas)}
	available := counted{"availableReplicas", int64(s.AvailableReplicas)}
	errs := validateNotNegative(path, counted{"replicas", int64(s.Replicas)}, ready, current, updated, available,
		counted{"observedGeneration", s.ObservedGeneration}, countOf("collisionCount", s.CollisionCount))
	errs = append(errs, validateAtMost(path, int64(s.Replicas), "status.replicas", ready, current, updated,
		available)...)
	errs = append(errs, validateAtMost(path, int64(s.ReadyReplicas), "status.readyReplicas", available)...)
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount)...)
}

// warnStatefulSet returns warnings about fields without effect.
//
// Upstream: pkg/registry/apps/statefulset statefulSetStrategy.WarningsOnCreate.
func warnStatefulSet(set, _ *appsv1.StatefulSet) []string {
	if ptr.Deref(set.Spec.RevisionHistoryLimit, 0) < 0 {
		return []string{"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"}
	}
	return nil
}
