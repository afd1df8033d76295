package rules

import (
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateRuntimeClass validates a runtime class.
//
// Differs: overhead and tolerations are not validated.
//
// Upstream: pkg/apis/node/validation ValidateRuntimeClass.
func validateRuntimeClass(c, _ *nodev1.RuntimeClass) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("handler")
	if c.Handler == "" {
		errs = append(errs, field.Required(path, ""))
	} else {
		for _, msg := range validation.NameIsDNSLabel(c.Handler, false) {
			errs = append(errs, field.Invalid(path, c.Handler, msg))
		}
	}
	if c.Scheduling != nil {
		errs = append(errs, metav1validation.ValidateLabels(c.Scheduling.NodeSelector,
			field.NewPath("scheduling", "nodeSelector"))...)
	}
	return errs
}

func validateRuntimeClassUpdate(c, old *nodev1.RuntimeClass) field.ErrorList {
	return append(validateRuntimeClass(c, nil), immutable(c.Handler, old.Handler, field.NewPath("handler"))...)
}
