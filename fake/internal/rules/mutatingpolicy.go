package rules

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of mutating admission policies and their bindings, in all versions: the Go types of v1beta1
// have the same fields.
//
// Differs: as in admissionpolicy.go.
//
// Upstream: pkg/registry/admissionregistration; pkg/apis/admissionregistration, v1 and validation.

// v1Match returns match constraints as those of v1. The result shares the lists.
func v1Match(m *admissionv1beta1.MatchResources) *admissionv1.MatchResources {
	if m == nil {
		return nil
	}
	return &admissionv1.MatchResources{
		NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector,
		ResourceRules: v1Rules(m.ResourceRules), ExcludeResourceRules: v1Rules(m.ExcludeResourceRules),
		MatchPolicy: (*admissionv1.MatchPolicyType)(m.MatchPolicy),
	}
}

func v1Rules(all []admissionv1beta1.NamedRuleWithOperations) []admissionv1.NamedRuleWithOperations {
	out := make([]admissionv1.NamedRuleWithOperations, len(all))
	for i, r := range all {
		out[i] = admissionv1.NamedRuleWithOperations(r)
	}
	return out
}

func v1Conditions(all []admissionv1beta1.MatchCondition) []admissionv1.MatchCondition {
	out := make([]admissionv1.MatchCondition, len(all))
	for i, c := range all {
		out[i] = admissionv1.MatchCondition(c)
	}
	return out
}

func defaultBetaMatch(m *admissionv1beta1.MatchResources) {
	if m == nil {
		return
	}
	setIfNil(&m.MatchPolicy, admissionv1beta1.Equivalent)
	setIfNil(&m.NamespaceSelector, metav1.LabelSelector{})
	setIfNil(&m.ObjectSelector, metav1.LabelSelector{})
	for _, all := range [][]admissionv1beta1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range all {
			setIfNil(&all[i].Scope, admissionv1.AllScopes)
		}
	}
}

func warnMutatingPolicy(p, _ *admissionv1beta1.MutatingAdmissionPolicy) []string {
	return warnStaticName(p.Name)
}

func warnMutatingBinding(b, _ *admissionv1beta1.MutatingAdmissionPolicyBinding) []string {
	return warnStaticName(b.Name)
}

func defaultMutatingPolicy(p *admissionv1beta1.MutatingAdmissionPolicy) {
	setIfNil(&p.Spec.FailurePolicy, admissionv1beta1.Fail)
	defaultBetaMatch(p.Spec.MatchConstraints)
}

func prepareMutatingPolicyCreate(_ metav1.Time, p, _ *admissionv1beta1.MutatingAdmissionPolicy) {
	p.Generation = 1
}

func prepareMutatingPolicyUpdate(_ metav1.Time, p, old *admissionv1beta1.MutatingAdmissionPolicy) {
	if !equal(&p.Spec, &old.Spec) {
		p.Generation = old.Generation + 1
	}
}

func validateMutatingPolicy(p, old *admissionv1beta1.MutatingAdmissionPolicy) field.ErrorList {
	spec := &p.Spec
	errs := validatePolicyFailure((*admissionv1.FailurePolicyType)(spec.FailurePolicy))
	errs = append(errs, validateParamKind((*admissionv1.ParamKind)(spec.ParamKind), specPath.Child("paramKind"))...)
	errs = append(errs, validateConstraints(v1Match(spec.MatchConstraints))...)
	if m := spec.MatchConstraints; m != nil {
		errs = append(errs, validateMutatedOperations(m.ResourceRules, specPath.Child("matchConstraints"))...)
	}
	if old == nil || !equalPointers(spec.ParamKind, old.Spec.ParamKind) || !slices.Equal(spec.MatchConditions, old.Spec.MatchConditions) {
		errs = append(errs, validateMatchConditions(v1Conditions(spec.MatchConditions), specPath.Child("matchConditions"))...)
	}
	variables := make([]admissionv1.Variable, len(spec.Variables))
	for i, v := range spec.Variables {
		variables[i] = admissionv1.Variable(v)
	}
	errs = append(errs, validateVariables(variables)...)
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(specPath.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range spec.Mutations {
		errs = append(errs, validateMutation(&spec.Mutations[i], specPath.Child("mutations").Index(i))...)
	}
	path := specPath.Child("reinvocationPolicy")
	if spec.ReinvocationPolicy == "" {
		return append(errs, field.Required(path, ""))
	}
	return append(errs, oneOf(spec.ReinvocationPolicy, path, admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
}

// validateMutatedOperations validates the operations of requests that are mutated: not deletions.
func validateMutatedOperations(all []admissionv1beta1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, r := range all {
		for _, o := range r.Operations {
			errs = append(errs, oneOf(o, path.Child("resourceRules", "operations"), admissionv1.OperationAll, admissionv1.Connect,
				admissionv1.Create, admissionv1.Update)...)
		}
	}
	return errs
}

func validateMutation(m *admissionv1beta1.Mutation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	require := func(expression *string, name string) {
		switch at := path.Child(name); {
		case expression == nil:
			errs = append(errs, field.Required(at, "must be specified when patchType is "+string(m.PatchType)))
		case strings.TrimSpace(*expression) == "":
			errs = append(errs, field.Required(at.Child("expression"), ""))
		}
	}
	forbid := func(there bool, name string) {
		if there {
			errs = append(errs, field.Invalid(path.Child(name), "{"+name+"}", "must not be specified when patchType is "+string(m.PatchType)))
		}
	}
	var patch, config *string
	if m.JSONPatch != nil {
		patch = &m.JSONPatch.Expression
	}
	if m.ApplyConfiguration != nil {
		config = &m.ApplyConfiguration.Expression
	}
	switch at := path.Child("patchType"); m.PatchType {
	case "":
		errs = append(errs, field.Required(at, ""))
	case admissionv1beta1.PatchTypeJSONPatch:
		require(patch, "jsonPatch")
		forbid(config != nil, "applyConfiguration")
	case admissionv1beta1.PatchTypeApplyConfiguration:
		require(config, "applyConfiguration")
		forbid(patch != nil, "jsonPatch")
	default:
		errs = append(errs, oneOf(m.PatchType, at, admissionv1beta1.PatchTypeApplyConfiguration, admissionv1beta1.PatchTypeJSONPatch)...)
	}
	return errs
}

func defaultMutatingBinding(b *admissionv1beta1.MutatingAdmissionPolicyBinding) {
	defaultBetaMatch(b.Spec.MatchResources)
}

func prepareMutatingBindingCreate(_ metav1.Time, b, _ *admissionv1beta1.MutatingAdmissionPolicyBinding) {
	b.Generation = 1
}

func prepareMutatingBindingUpdate(_ metav1.Time, b, old *admissionv1beta1.MutatingAdmissionPolicyBinding) {
	if !equal(&b.Spec, &old.Spec) {
		b.Generation = old.Generation + 1
	}
}

func validateMutatingBinding(b, _ *admissionv1beta1.MutatingAdmissionPolicyBinding) field.ErrorList {
	var params *admissionv1.ParamRef
	if r := b.Spec.ParamRef; r != nil {
		params = &admissionv1.ParamRef{
			Name: r.Name, Namespace: r.Namespace, Selector: r.Selector,
			ParameterNotFoundAction: (*admissionv1.ParameterNotFoundActionType)(r.ParameterNotFoundAction),
		}
	}
	errs := validateBound(b.Spec.PolicyName, params, v1Match(b.Spec.MatchResources))
	if m := b.Spec.MatchResources; m != nil {
		errs = append(errs, validateMutatedOperations(m.ResourceRules, specPath.Child("matchResources"))...)
	}
	return errs
}
