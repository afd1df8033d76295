package rules

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Messages of upstream's validation.
const (
	positiveMsg  = "must be greater than zero"
	NegativeMsg  = "must be greater than or equal to 0"
	immutableMsg = "field is immutable"
)

var (
	metaPath       = field.NewPath("metadata")
	finalizersPath = metaPath.Child("finalizers")
)

// ValidateMeta validates the metadata of an object to be created. The finalizers of a custom object
// need not be qualified.
func ValidateMeta(m *metav1.ObjectMeta, namespaced bool, name validation.ValidateNameFunc,
	custom bool,
) field.ErrorList {
	if (m.Namespace != "") == namespaced && plainMeta(m) && len(name(m.Name, false)) == 0 {
		return nil
	}
	errs := validation.ValidateObjectMetaAccessor(m, namespaced, name, metaPath)
	if custom {
		return errs
	}
	return append(errs, validateFinalizers(m.Finalizers)...)
}

// validateFinalizers validates that finalizers are standard or qualified.
func validateFinalizers(finalizers []string) field.ErrorList {
	var errs field.ErrorList
	for i, f := range finalizers {
		if !isStandardFinalizer(f) {
			errs = append(errs, standardFinalizer(f, finalizersPath.Index(i))...)
		}
	}
	return errs
}

// standardFinalizer validates that a finalizer is a standard one or is qualified with a domain.
func standardFinalizer(f string, path *field.Path) field.ErrorList {
	if isStandardFinalizer(f) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, f,
		"name is neither a standard finalizer name nor is it fully qualified")}
}

func isStandardFinalizer(f string) bool {
	switch f {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return true
	}
	return strings.Contains(f, "/")
}

// validateFinalizer validates a finalizer of a namespace's spec.
func validateFinalizer(f string, path *field.Path) field.ErrorList {
	return append(validateQualified(f, path), standardFinalizer(f, path)...)
}

// ValidateMetaUpdate validates the metadata of an object to be updated. Fields that do not change
// are not validated again.
//
// Upstream: k8s.io/apimachinery/pkg/api/validation ValidateObjectMetaAccessorUpdate.
func ValidateMetaUpdate(m, old *metav1.ObjectMeta, custom bool) field.ErrorList {
	identical := m.Name == old.Name && m.Namespace == old.Namespace && m.UID == old.UID &&
		m.DeletionTimestamp.Equal(old.DeletionTimestamp) &&
		equalPointers(m.DeletionGracePeriodSeconds, old.DeletionGracePeriodSeconds)
	var errs field.ErrorList
	if !identical {
		errs = validation.ValidateObjectMetaAccessorUpdate(m, old, metaPath)
	}
	if !slices.Equal(m.Finalizers, old.Finalizers) {
		added := func(f string) bool { return !slices.Contains(old.Finalizers, f) }
		if identical && old.DeletionTimestamp != nil && slices.ContainsFunc(m.Finalizers, added) {
			errs = append(errs, validation.ValidateNoNewFinalizers(m.Finalizers, old.Finalizers, finalizersPath)...)
		}
		errs = append(errs, validation.ValidateFinalizers(m.Finalizers, finalizersPath)...)
		if !custom {
			errs = append(errs, validateFinalizers(m.Finalizers)...)
		}
	}
	if !maps.Equal(m.Labels, old.Labels) {
		errs = append(errs, metav1validation.ValidateLabels(m.Labels, metaPath.Child("labels"))...)
	}
	if !maps.Equal(m.Annotations, old.Annotations) && !plainMeta(m) {
		errs = append(errs, validation.ValidateAnnotations(m.Annotations, metaPath.Child("annotations"))...)
	}
	if len(m.OwnerReferences) == 0 {
		return errs
	}
	return append(errs, validation.ValidateOwnerReferences(m.OwnerReferences, metaPath.Child("ownerReferences"))...)
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// equal reports whether two messages are semantically equal. Comparing the wire forms first is the
// fast path.
func equal(a, b Message) bool { return Same(a, b) || equality.Semantic.DeepEqual(a, b) }

func immutable(value, old any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, errorValue(value), immutableMsg)}
}

// errorValue returns the form that an error prints a value in.
func errorValue(value any) any {
	switch reflect.Indirect(reflect.ValueOf(value)).Kind() {
	case reflect.Struct, reflect.Slice:
		return goFields{value}
	}
	return value
}

func positive(q apiresource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, q.String(), positiveMsg)}
	}
	return nil
}

// quantity validates that a quantity is not negative.
func quantity(q apiresource.Quantity, path *field.Path) field.ErrorList {
	if q.Value() < 0 {
		return field.ErrorList{field.Invalid(path, q.Value(), "must be a valid resource quantity")}
	}
	return nil
}

func notNegative(q apiresource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, q.String(), NegativeMsg)}
	}
	return nil
}

// validateName validates a field that has the name of another object.
func validateName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateQualified validates a name like example.com/name.
func validateQualified(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateDriverName validates the name of a CSI driver.
func validateDriverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > 63 {
		errs = append(errs, field.TooLong(path, "", 63))
	}
	for _, msg := range NameIsDNSSubdomain(strings.ToLower(name), false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// oneOf validates a field that has a fixed set of values.
func oneOf[T ~string](value T, path *field.Path, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, slices.Sorted(slices.Values(values)))}
}

var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
}

// validateAccessModes validates the access modes of a claim or a volume. missing is the message if
// there are none.
func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path, missing string) field.ErrorList {
	var errs field.ErrorList
	if len(modes) == 0 {
		errs = append(errs, field.Required(path, missing))
	}
	pod, other := false, false
	for _, mode := range modes {
		strange := oneOf(mode, path, accessModes...)
		errs = append(errs, strange...)
		switch {
		case mode == corev1.ReadWriteOncePod:
			pod = true
		case len(strange) == 0:
			other = true
		}
	}
	if pod && other {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func validateVolumeMode(mode *corev1.PersistentVolumeMode, path *field.Path) field.ErrorList {
	if mode == nil {
		return nil
	}
	return oneOf(*mode, path, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
}

// noBacksteps validates that a path has no element "..".
func noBacksteps(p string, path *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
	}
	return nil
}
