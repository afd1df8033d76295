package rules

import (
	"maps"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateStorageCapacity validates the capacity that a driver reports.
//
// Upstream: pkg/apis/storage/validation ValidateCSIStorageCapacity.
func validateStorageCapacity(c, _ *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(c.NodeTopology, metav1validation.LabelSelectorValidationOptions{},
		field.NewPath("nodeTopology"))
	errs = append(errs, validateName(c.StorageClassName, field.NewPath("storageClassName"))...)
	if c.Capacity != nil {
		errs = append(errs, notNegative(*c.Capacity, field.NewPath("capacity"))...)
	}
	return errs
}

// validateStorageCapacityUpdate validates that topology and class do not change.
//
// Upstream: pkg/apis/storage/validation ValidateCSIStorageCapacityUpdate.
func validateStorageCapacityUpdate(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := validateStorageCapacity(c, nil)
	if !equality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(field.NewPath("nodeTopology"), c.NodeTopology, immutableMsg))
	}
	if c.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(field.NewPath("storageClassName"), c.StorageClassName, immutableMsg))
	}
	return errs
}

// validateAttributesClass validates a VolumeAttributesClass.
//
// Upstream: pkg/apis/storage/validation ValidateVolumeAttributesClass.
func validateAttributesClass(class, _ *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := validateProvisioner(class.DriverName, field.NewPath("driverName"))
	path := field.NewPath("parameters")
	if len(class.Parameters) == 0 {
		return append(errs, field.Required(path, "must contain at least one key/value pair"))
	}
	return append(errs, validateParameters(class.Parameters, path)...)
}

func validateProvisioner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return validateQualified(strings.ToLower(name), path)
}

// validateAttributesClassUpdate validates that driver and parameters do not change.
//
// Upstream: pkg/apis/storage/validation ValidateVolumeAttributesClassUpdate.
func validateAttributesClassUpdate(class, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if class.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !maps.Equal(class.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return append(errs, validateAttributesClass(class, nil)...)
}
