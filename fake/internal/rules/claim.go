package rules

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var specPath = field.NewPath("spec")

// specPaths are the paths in the spec that every claim's validation needs.
type specPaths struct{ spec, accessModes, size, class, mode *field.Path }

func pathsAt(spec *field.Path) specPaths {
	return specPaths{
		spec:        spec,
		accessModes: spec.Child("accessModes"),
		size:        spec.Child("resources").Key(string(corev1.ResourceStorage)),
		class:       spec.Child("storageClassName"),
		mode:        spec.Child("volumeMode"),
	}
}

var claimPaths = pathsAt(specPath)

const claimSpecMsg = "spec is immutable after creation except resources.requests and volumeAttributesClassName " +
	"for bound claims\n%v"

// validateClaim validates a claim.
//
// Upstream: pkg/apis/core/validation ValidatePersistentVolumeClaim.
func validateClaim(claim, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	return validateClaimSpec(&claim.Spec, &claimPaths)
}

// validateClaimSpec validates the spec of a claim or of a claim template.
func validateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, at *specPaths) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(at.accessModes, "at least 1 access mode is required"))
	}
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{}, at.spec.Child("selector"))...)
	}
	if len(spec.AccessModes) > 0 {
		errs = append(errs, validateAccessModes(spec.AccessModes, at.accessModes, "")...)
	}
	path := at.size
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, positive(size, path)...)
	}
	if spec.StorageClassName != nil && *spec.StorageClassName != "" {
		errs = append(errs, validateName(*spec.StorageClassName, at.class)...)
	}
	errs = append(errs, validateVolumeMode(spec.VolumeMode, at.mode)...)
	errs = append(errs, validateDataSources(spec, at.spec)...)
	if c := spec.VolumeAttributesClassName; c != nil && *c != "" {
		errs = append(errs, validateName(*c, at.spec.Child("volumeAttributesClassName"))...)
	}
	return errs
}

func validateDataSources(spec *corev1.PersistentVolumeClaimSpec, specPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		errs = append(errs, validateDataSource(source.APIGroup, source.Kind, source.Name,
			specPath.Child("dataSource"))...)
	}
	if ref != nil {
		errs = append(errs, validateDataSource(ref.APIGroup, ref.Kind, ref.Name, specPath.Child("dataSourceRef"))...)
	}
	if hasNamespace(ref) {
		for _, msg := range apivalidation.ValidateNamespaceName(*ref.Namespace, false) {
			errs = append(errs, field.Invalid(specPath.Child("dataSourceRef", "namespace"), *ref.Namespace, msg))
		}
		if source != nil {
			errs = append(errs, field.Invalid(specPath, specPath.Child("dataSource"),
				"may not be specified when dataSourceRef.namespace is specified"))
		}
		return errs
	}
	if source != nil && ref != nil {
		alike := source.Kind == ref.Kind && source.Name == ref.Name && equalPointers(source.APIGroup, ref.APIGroup)
		if !alike {
			errs = append(errs, field.Invalid(specPath, specPath.Child("dataSource"), "must match dataSourceRef"))
		}
	}
	return errs
}

func validateDataSource(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	switch {
	case group == nil || *group == "":
		if kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(path, kind,
				"must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
	default:
		for _, msg := range utilvalidation.IsDNS1123Subdomain(*group) {
			errs = append(errs, field.Invalid(path.Child("apiGroup"), *group, msg))
		}
	}
	return errs
}

// validateClaimUpdate validates an update of a claim. volumeName may be set once. The size and the
// attributes class may change while the claim is bound; the size must not fall below the capacity.
// The class may change from nothing, or from the beta annotation, to a name.
//
// Upstream: pkg/apis/core/validation ValidatePersistentVolumeClaimUpdate.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	if Same(&claim.Spec, &old.Spec) && betaClass(claim) == betaClass(old) {
		return nil
	}
	errs := validateClaim(claim, nil)
	errs = append(errs, validateClaimSpecUpdate(claim, old)...)
	size, oldSize := claim.Spec.Resources.Requests.Storage(), old.Spec.Resources.Requests.Storage()
	if size.Cmp(*oldSize) < 0 && size.Cmp(*old.Status.Capacity.Storage()) <= 0 {
		errs = append(errs, field.Forbidden(specPath.Child("resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	if !equalPointers(claim.Spec.VolumeMode, old.Spec.VolumeMode) {
		errs = append(errs, immutable(claim.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	}
	if old.Status.CurrentVolumeAttributesClassName != nil && !equalPointers(claim.Spec.VolumeAttributesClassName,
		old.Spec.VolumeAttributesClassName) {
		path, class := specPath.Child("volumeAttributesClassName"), claim.Spec.VolumeAttributesClassName
		switch {
		case class == nil:
			errs = append(errs, field.Forbidden(path,
				"update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
		case *class == "":
			errs = append(errs, field.Forbidden(path,
				"update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
		}
	}
	return errs
}

// validateClaimSpecUpdate returns an error if any other field of the spec changes.
func validateClaimSpecUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	spec, oldSpec := new(claim.Spec), new(old.Spec) // shallow copies: what they point to is only read
	copyDataSource(oldSpec)
	if oldSpec.VolumeName == "" {
		oldSpec.VolumeName = spec.VolumeName
	}
	beta, hadBeta := old.Annotations[corev1.BetaStorageClassAnnotation]
	named := old.Spec.StorageClassName == nil && spec.StorageClassName != nil &&
		(!hadBeta || *spec.StorageClassName == beta)
	newBeta, hasBeta := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if promoted := named && hadBeta && (!hasBeta || newBeta == beta); !promoted && newBeta != beta {
		path := metaPath.Child("annotations", corev1.BetaStorageClassAnnotation)
		errs = append(errs, field.Invalid(path, newBeta, immutableMsg))
	}
	if named {
		spec.StorageClassName = nil
	}
	if old.Status.Phase == corev1.ClaimBound {
		spec.VolumeAttributesClassName = oldSpec.VolumeAttributesClassName
		if spec.Resources.Requests != nil {
			spec.Resources.Requests = maps.Clone(spec.Resources.Requests)
			spec.Resources.Requests[corev1.ResourceStorage] = oldSpec.Resources.Requests[corev1.ResourceStorage]
		}
	}
	if !equal(spec, oldSpec) {
		errs = append(errs, field.Forbidden(specPath, fmt.Sprintf(claimSpecMsg, diff.Diff(oldSpec, spec))))
	}
	return errs
}

func betaClass(claim *corev1.PersistentVolumeClaim) string {
	return claim.Annotations[corev1.BetaStorageClassAnnotation]
}

var resizeStatuses = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
	corev1.PersistentVolumeClaimNodeResizeInfeasible,
}

// validateClaimStatus validates a write of a claim's status.
//
// Upstream: pkg/apis/core/validation ValidatePersistentVolumeClaimStatusUpdate.
func validateClaimStatus(claim, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	capacity, path := claim.Status.Capacity, capacityPath
	if someNotPositive(capacity) {
		for _, name := range slices.Sorted(maps.Keys(capacity)) {
			errs = append(errs, quantity(capacity[name], path.Key(string(name)))...)
		}
	}
	if len(claim.Status.AllocatedResourceStatuses) == 0 && len(claim.Status.AllocatedResources) == 0 {
		return errs
	}
	path = statusPath.Child("allocatedResourceStatuses")
	statuses := claim.Status.AllocatedResourceStatuses
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		errs = append(errs, validateClaimResource(name, path)...)
		if !slices.Contains(resizeStatuses, statuses[name]) {
			errs = append(errs, field.NotSupported(path, name, slices.Sorted(slices.Values(resizeStatuses))))
		}
	}
	path = statusPath.Child("allocatedResources")
	allocated := claim.Status.AllocatedResources
	for _, name := range slices.Sorted(maps.Keys(allocated)) {
		bad := validateClaimResource(name, path)
		if len(bad) == 0 {
			bad = quantity(allocated[name], path.Key(string(name)))
		}
		errs = append(errs, bad...)
	}
	return errs
}

// validateClaimResource validates the name of a resource in a claim's status: storage, or a
// qualified name.
func validateClaimResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := validateQualified(string(name), path)
	if len(errs) == 0 && name != corev1.ResourceStorage && !isExtended(name) {
		errs = append(errs, field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}
