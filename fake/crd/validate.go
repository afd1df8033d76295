package crd

import (
	"context"
	"fmt"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/volsim/volsim/fake"
)

const (
	blockedMsg  = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
	negativeMsg = "should be a non-negative integer"
)

// content returns an object as a map. The values are shared with the object.
func content(obj *fake.CustomObject) map[string]any {
	u, err := obj.Unstructured()
	if err != nil {
		panic(fmt.Sprintf("crd: decode metadata: %v", err))
	}
	return u.Object
}

// validate validates an object. On update, unchanged fields are not validated again.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource customResourceStrategy.
func (v *version) validate(obj, old *fake.CustomObject) field.ErrorList {
	current := content(obj)
	var errs field.ErrorList
	var previous map[string]any
	var kept *common.CorrelatedObject
	if old == nil {
		errs = byPath(validation.ValidateCustomResource(nil, current, v.validator))
	} else {
		previous = content(old)
		kept = common.NewCorrelatedObject(current, previous, &model.Structural{Structural: v.schema})
		errs = byPath(validation.ValidateCustomResourceUpdate(nil, current, previous, v.validator,
			validation.WithRatcheting(kept)))
	}
	errs = append(errs, v.validateSpecReplicas(current)...)
	errs = append(errs, v.validateStatusReplicas(current)...)
	errs = append(errs, byPath(validateMetadata(current, v.schema))...)
	errs = append(errs, v.validateLists(current, previous)...)
	return append(errs, v.validateRules(current, previous, kept, errs)...)
}

// validateStatus validates an object after a write of its status.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource
// statusStrategy.ValidateUpdate.
func (v *version) validateStatus(obj, old *fake.CustomObject) field.ErrorList {
	current, previous := content(obj), content(old)
	kept := common.NewCorrelatedObject(current, previous, &model.Structural{Structural: v.schema})
	var errs field.ErrorList
	if status, ok := current["status"]; ok && v.statusValidator != nil {
		errs = byPath(validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, previous["status"],
			v.statusValidator,
			validation.WithRatcheting(kept.Key("status"))))
	}
	errs = append(errs, v.validateStatusReplicas(current)...)
	errs = append(errs, v.validateLists(current, previous)...)
	return append(errs, v.validateRules(current, previous, kept, errs)...)
}

// validateLists checks that sets and maps have no duplicates, unless the old object had some.
func (v *version) validateLists(current, previous map[string]any) field.ErrorList {
	if previous != nil && len(listtype.ValidateListSetsAndMaps(nil, v.schema, previous)) > 0 {
		return nil
	}
	return byPath(listtype.ValidateListSetsAndMaps(nil, v.schema, current))
}

// validateRules evaluates the CEL rules unless an earlier error prevents that.
func (v *version) validateRules(
	current, previous map[string]any, kept *common.CorrelatedObject, found field.ErrorList,
) field.ErrorList {
	rules := v.rules()
	if rules == nil {
		return nil
	}
	if previous == nil && hasNoName(current) {
		return field.ErrorList{field.Invalid(nil, nil, blockedMsg)}
	}
	for _, e := range found {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil, blockedMsg)}
		}
	}
	var before any
	var options []cel.Option
	if previous != nil {
		before = previous
		options = append(options, cel.WithRatcheting(kept))
	}
	errs, _ := rules.Validate(context.Background(), nil, v.schema, current, before, celconfig.RuntimeCELCostBudget,
		options...)
	return byPath(errs)
}

// hasNoName reports whether an object has no name, which is reported elsewhere.
func hasNoName(current map[string]any) bool {
	name, _, _ := unstructured.NestedString(current, "metadata", "name")
	return name == ""
}

// validateSpecReplicas checks the requested replicas of an object with a /scale subresource.
func (v *version) validateSpecReplicas(current map[string]any) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	return validateReplicaCount(current, v.scale.SpecReplicas)
}

// validateStatusReplicas checks the observed replicas of an object with a /scale subresource.
func (v *version) validateStatusReplicas(current map[string]any) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	errs := validateReplicaCount(current, v.scale.StatusReplicas)
	if at := v.scale.LabelSelector; at != "" {
		if value, _, err := unstructured.NestedString(current, splitPath(at)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(at), value, err.Error()))
		}
	}
	return errs
}

func validateReplicaCount(current map[string]any, at string) field.ErrorList {
	value, _, err := unstructured.NestedInt64(current, splitPath(at)...)
	msg := ""
	switch {
	case err != nil:
		msg = err.Error()
	case value < 0:
		msg = negativeMsg
	case value > math.MaxInt32:
		msg = fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(at), value, msg)}
}

func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
