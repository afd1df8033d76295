package crd

import (
	"context"
	"fmt"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
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

// content is an object as a map. What is in it is shared.
func content(obj *fake.CustomObject) map[string]any {
	u, err := obj.Unstructured()
	if err != nil {
		panic(fmt.Sprintf("crd: an object's metadata cannot be read: %v", err))
	}
	return u.Object
}

// validate says what is wrong with an object. What an update left as it was is not held against it.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource customResourceStrategy.
func (v *version) validate(obj, old *fake.CustomObject) field.ErrorList {
	is := content(obj)
	var errs field.ErrorList
	var was map[string]any
	var kept *common.CorrelatedObject
	if old == nil {
		errs = byPath(validation.ValidateCustomResource(nil, is, v.validator))
	} else {
		was = content(old)
		kept = common.NewCorrelatedObject(is, was, &model.Structural{Structural: v.schema})
		errs = byPath(validation.ValidateCustomResourceUpdate(nil, is, was, v.validator, validation.WithRatcheting(kept)))
	}
	errs = append(errs, v.validateSpecReplicas(is)...)
	errs = append(errs, v.validateStatusReplicas(is)...)
	errs = append(errs, byPath(objectmeta.Validate(nil, is, v.schema, false))...)
	errs = append(errs, v.validateLists(is, was)...)
	return append(errs, v.validateRules(is, was, kept, errs)...)
}

// validateStatus says what is wrong with an object whose status was written.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource statusStrategy.ValidateUpdate.
func (v *version) validateStatus(obj, old *fake.CustomObject) field.ErrorList {
	is, was := content(obj), content(old)
	kept := common.NewCorrelatedObject(is, was, &model.Structural{Structural: v.schema})
	var errs field.ErrorList
	if status, ok := is["status"]; ok && v.statusValidator != nil {
		errs = byPath(validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, was["status"], v.statusValidator,
			validation.WithRatcheting(kept.Key("status"))))
	}
	errs = append(errs, v.validateStatusReplicas(is)...)
	errs = append(errs, v.validateLists(is, was)...)
	return append(errs, v.validateRules(is, was, kept, errs)...)
}

// validateLists checks that sets and maps have nothing twice, unless they had.
func (v *version) validateLists(is, was map[string]any) field.ErrorList {
	if was != nil && len(listtype.ValidateListSetsAndMaps(nil, v.schema, was)) > 0 {
		return nil
	}
	return byPath(listtype.ValidateListSetsAndMaps(nil, v.schema, is))
}

// validateRules evaluates the CEL rules, if what was found so far lets them be.
func (v *version) validateRules(is, was map[string]any, kept *common.CorrelatedObject, found field.ErrorList) field.ErrorList {
	rules := v.rules()
	if rules == nil {
		return nil
	}
	if was == nil && hasNoName(is) {
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
	if was != nil {
		before = was
		options = append(options, cel.WithRatcheting(kept))
	}
	errs, _ := rules.Validate(context.Background(), nil, v.schema, is, before, celconfig.RuntimeCELCostBudget, options...)
	return byPath(errs)
}

// hasNoName tells whether an object has no name, which is found to be wrong elsewhere.
func hasNoName(is map[string]any) bool {
	name, _, _ := unstructured.NestedString(is, "metadata", "name")
	return name == ""
}

// validateSpecReplicas checks the replicas that an object with a /scale wants.
func (v *version) validateSpecReplicas(is map[string]any) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	return validateReplicaCount(is, v.scale.SpecReplicas)
}

// validateStatusReplicas checks the replicas that an object with a /scale says there are.
func (v *version) validateStatusReplicas(is map[string]any) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	errs := validateReplicaCount(is, v.scale.StatusReplicas)
	if at := v.scale.LabelSelector; at != "" {
		if value, _, err := unstructured.NestedString(is, splitPath(at)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(at), value, err.Error()))
		}
	}
	return errs
}

func validateReplicaCount(is map[string]any, at string) field.ErrorList {
	value, _, err := unstructured.NestedInt64(is, splitPath(at)...)
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
