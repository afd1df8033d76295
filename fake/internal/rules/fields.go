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

var metaPath = field.NewPath("metadata")

// ValidateMeta checks the metadata of an object to be created.
func ValidateMeta(m *metav1.ObjectMeta, namespaced bool, name validation.ValidateNameFunc, custom bool) field.ErrorList {
	if (m.Namespace != "") == namespaced && plainMeta(m) && len(name(m.Name, false)) == 0 {
		return nil
	}
	errs := validation.ValidateObjectMetaAccessor(m, namespaced, name, metaPath)
	if custom {
		return errs
	}
	return append(errs, validateFinalizers(m.Finalizers)...)
}

// validateFinalizers checks that finalizers say whose they are.
func validateFinalizers(finalizers []string) field.ErrorList {
	var errs field.ErrorList
	for i, f := range finalizers {
		errs = append(errs, standardFinalizer(f, metaPath.Child("finalizers").Index(i))...)
	}
	return errs
}

// standardFinalizer checks that a finalizer is one that everybody knows, or says whose it is.
func standardFinalizer(f string, path *field.Path) field.ErrorList {
	switch f {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return nil
	}
	if strings.Contains(f, "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, f, "name is neither a standard finalizer name nor is it fully qualified")}
}

// validateFinalizer checks a finalizer of a namespace's spec.
func validateFinalizer(f string, path *field.Path) field.ErrorList {
	return append(validateQualified(f, path), standardFinalizer(f, path)...)
}

// ValidateMetaUpdate checks the metadata of an object to be updated. What is as it was is not looked at again.
//
// Upstream: k8s.io/apimachinery/pkg/api/validation ValidateObjectMetaAccessorUpdate.
func ValidateMetaUpdate(m, was *metav1.ObjectMeta, custom bool) field.ErrorList {
	identical := m.Name == was.Name && m.Namespace == was.Namespace && m.UID == was.UID &&
		m.DeletionTimestamp.Equal(was.DeletionTimestamp) &&
		equalPointers(m.DeletionGracePeriodSeconds, was.DeletionGracePeriodSeconds)
	var errs field.ErrorList
	if !identical {
		errs = validation.ValidateObjectMetaAccessorUpdate(m, was, metaPath)
	}
	if !slices.Equal(m.Finalizers, was.Finalizers) {
		if identical && was.DeletionTimestamp != nil {
			errs = append(errs, validation.ValidateNoNewFinalizers(m.Finalizers, was.Finalizers, metaPath.Child("finalizers"))...)
		}
		errs = append(errs, validation.ValidateFinalizers(m.Finalizers, metaPath.Child("finalizers"))...)
		if !custom {
			errs = append(errs, validateFinalizers(m.Finalizers)...)
		}
	}
	if !maps.Equal(m.Labels, was.Labels) {
		errs = append(errs, metav1validation.ValidateLabels(m.Labels, metaPath.Child("labels"))...)
	}
	if !maps.Equal(m.Annotations, was.Annotations) && !plainMeta(m) {
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

// equal tells whether two messages mean the same; those that look the same on the wire cost little.
func equal(a, b Message) bool { return Same(a, b) || equality.Semantic.DeepEqual(a, b) }

func immutable(is, was any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, errorValue(is), immutableMsg)}
}

// errorValue is a value as an error tells it.
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

// quantity checks that a quantity is one that makes sense at all.
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

// validateName checks the name of another object in a field.
func validateName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateQualified checks a name like example.com/name.
func validateQualified(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateDriverName checks the name of a CSI driver.
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

// oneOf checks a field that can only have certain values.
func oneOf[T ~string](value T, path *field.Path, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, slices.Sorted(slices.Values(values)))}
}

var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
}

// validateAccessModes checks the access modes of a claim or a volume; missing says that there are none.
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

// noBacksteps checks that a path does not lead upwards.
func noBacksteps(p string, path *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
	}
	return nil
}
