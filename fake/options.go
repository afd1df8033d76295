package fake

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file validates the options of requests. Most requests have none, which is valid except for
// an apply.

func checkCreateOptions(opts metav1.CreateOptions) error {
	if noOptions(opts.DryRun, opts.FieldManager, opts.FieldValidation) {
		return nil
	}
	return invalidOptions("CreateOptions", validation.ValidateCreateOptions(&opts))
}

func checkUpdateOptions(opts metav1.UpdateOptions) error {
	if noOptions(opts.DryRun, opts.FieldManager, opts.FieldValidation) {
		return nil
	}
	return invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&opts))
}

func checkPatchOptions(opts *metav1.PatchOptions, pt types.PatchType) error {
	if noOptions(opts.DryRun, opts.FieldManager, opts.FieldValidation) && opts.Force == nil &&
		pt != types.ApplyYAMLPatchType {
		return nil
	}
	return invalidOptions("PatchOptions", validation.ValidatePatchOptions(opts, pt))
}

func noOptions(dryRun []string, manager, fieldValidation string) bool {
	return len(dryRun) == 0 && manager == "" && fieldValidation == ""
}

// invalidOptions returns the error about a request's options, or nil.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}
