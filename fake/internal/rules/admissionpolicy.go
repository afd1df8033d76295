package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	apipath "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
)

// This file has the rules of validating admission policies and their bindings, except for what CEL expressions mean:
// package fake/admission compiles them.
//
// Differs: the errors of compilation follow all others; upstream has them in the order of the fields.
//
// Upstream: pkg/registry/admissionregistration; pkg/apis/admissionregistration, v1 and validation.

const (
	auditAnnotationsMax = 20
	auditExpressionMax  = 5 << 10 // bytes

	// staticSuffix ends the names of policies and webhooks that are read from files.
	staticSuffix = ".static.k8s.io"
)

// celReserved are the words of CEL that name no variable.
var celReserved = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
	"loop", "package", "namespace", "return", "var", "void", "while",
}

var celIdentifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

func warnStaticName(name string) []string {
	if !strings.HasSuffix(name, staticSuffix) {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: names ending with %q are reserved for static manifest-based configurations "+
		"and cannot be managed via the API", staticSuffix)}
}

func warnPolicy(p, _ *admissionv1.ValidatingAdmissionPolicy) []string { return warnStaticName(p.Name) }

func warnPolicyBinding(b, _ *admissionv1.ValidatingAdmissionPolicyBinding) []string {
	return warnStaticName(b.Name)
}

func defaultPolicy(p *admissionv1.ValidatingAdmissionPolicy) {
	setIfNil(&p.Spec.FailurePolicy, admissionv1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
	for i := range p.Status.Conditions {
		Truncate(&p.Status.Conditions[i].LastTransitionTime)
	}
}

func preparePolicyCreate(_ metav1.Time, p, _ *admissionv1.ValidatingAdmissionPolicy) {
	p.Status, p.Generation = admissionv1.ValidatingAdmissionPolicyStatus{}, 1
}

func preparePolicyUpdate(_ metav1.Time, p, old *admissionv1.ValidatingAdmissionPolicy) {
	if !equal(&p.Spec, &old.Spec) {
		p.Generation = old.Generation + 1
	}
}

func validatePolicy(p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	spec := &p.Spec
	errs := validatePolicyFailure(spec.FailurePolicy)
	errs = append(errs, validateParamKind(spec.ParamKind, specPath.Child("paramKind"))...)
	errs = append(errs, validateConstraints(spec.MatchConstraints)...)
	if old == nil || !equalParamKinds(spec.ParamKind, old.Spec.ParamKind) || !slices.Equal(spec.MatchConditions, old.Spec.MatchConditions) {
		errs = append(errs, validateMatchConditions(spec.MatchConditions, specPath.Child("matchConditions"))...)
	}
	errs = append(errs, validateVariables(spec.Variables)...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const msg = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(specPath.Child("validations"), msg), field.Required(specPath.Child("auditAnnotations"), msg))
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], specPath.Child("validations").Index(i))...)
	}
	return append(errs, validateAuditAnnotations(p.Name, spec.AuditAnnotations)...)
}

func validatePolicyFailure(policy *admissionv1.FailurePolicyType) field.ErrorList {
	path := specPath.Child("failurePolicy")
	if policy == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return oneOf(*policy, path, admissionv1.Fail, admissionv1.Ignore)
}

// validateConstraints validates the match constraints of a policy, which must have a rule.
func validateConstraints(m *admissionv1.MatchResources) field.ErrorList {
	path := specPath.Child("matchConstraints")
	if m == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := validateMatch(m, path)
	if len(m.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("resourceRules"), ""))
	}
	return errs
}

func equalParamKinds(a, b *admissionv1.ParamKind) bool { return equalPointers(a, b) }

func validateParamKind(k *admissionv1.ParamKind, path *field.Path) field.ErrorList {
	if k == nil {
		return nil
	}
	var errs field.ErrorList
	at := path.Child("apiVersion")
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(at, ""))
	case err != nil:
		errs = append(errs, field.Invalid(at, k.APIVersion, err.Error()))
	default:
		if gv.Group != "" {
			if msgs := utilvalidation.IsDNS1123Subdomain(gv.Group); len(msgs) > 0 {
				errs = append(errs, field.Invalid(at, gv.Group, strings.Join(msgs, ",")))
			}
		}
		if gv.Version == "" {
			errs = append(errs, field.Invalid(at, k.APIVersion, "version must be specified"))
		} else if msgs := utilvalidation.IsDNS1035Label(gv.Version); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at, gv.Version, strings.Join(msgs, ",")))
		}
	}
	at = path.Child("kind")
	if k.Kind == "" {
		return append(errs, field.Required(at, ""))
	}
	if msgs := utilvalidation.IsDNS1035Label(strings.ToLower(k.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at, k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

func validateVariables(variables []admissionv1.Variable) field.ErrorList {
	var errs field.ErrorList
	for i, v := range variables {
		path := specPath.Child("variables").Index(i)
		if strings.TrimSpace(v.Name) == "" {
			errs = append(errs, field.Required(path.Child("name"), "name is not specified"))
		} else if !celIdentifier.MatchString(v.Name) || slices.Contains(celReserved, v.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
		}
	}
	return errs
}

func validateValidation(v *admissionv1.Validation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	}
	const empty = "must be non-empty if specified"
	if v.MessageExpression != "" && strings.TrimSpace(v.MessageExpression) == "" {
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, empty))
	}
	switch message := strings.TrimSpace(v.Message); {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, empty))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, oneOf(*v.Reason, path.Child("reason"), metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
			metav1.StatusReasonRequestEntityTooLarge)...)
	}
	return errs
}

// validateAuditAnnotations validates the audit annotations of a policy. Their keys get its name as a prefix.
func validateAuditAnnotations(policy string, all []admissionv1.AuditAnnotation) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("auditAnnotations")
	if len(all) > auditAnnotationsMax {
		errs = append(errs, field.Invalid(path, internalAnnotations(all), fmt.Sprintf("must not have more than %d auditAnnotations", auditAnnotationsMax)))
	}
	seen := map[string]bool{}
	for i, a := range all {
		key, value := path.Index(i).Child("key"), path.Index(i).Child("valueExpression")
		if policy == "" {
			errs = append(errs, field.Invalid(key, a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, validateQualifiedName(policy+"/"+a.Key, key)...)
		}
		switch expression := strings.TrimSpace(a.ValueExpression); {
		case expression == "":
			errs = append(errs, field.Required(value, "valueExpression is not specified"))
		case len(expression) > auditExpressionMax:
			errs = append(errs, field.Required(value, fmt.Sprintf("must not exceed %d bytes in length", auditExpressionMax)))
		}
		if seen[a.Key] {
			errs = append(errs, field.Duplicate(key, a.Key))
		}
		seen[a.Key] = true
	}
	return errs
}

// internalAnnotations returns audit annotations as errors print them: upstream's internal type has no JSON names.
func internalAnnotations(all []admissionv1.AuditAnnotation) any {
	type internal struct{ Key, ValueExpression string }
	out := make([]internal, len(all))
	for i, a := range all {
		out[i] = internal{a.Key, a.ValueExpression}
	}
	return out
}

func validatePolicyStatus(p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	if t := p.Status.TypeChecking; t != nil {
		for i, w := range t.ExpressionWarnings {
			at := path.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			ref := strings.TrimSpace(w.FieldRef)
			if ref == "" {
				errs = append(errs, field.Required(at.Child("fieldRef"), ""))
			} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
				errs = append(errs, field.Invalid(at.Child("fieldRef"), ref, fmt.Sprintf("invalid JSONPath: %v", err)))
			}
		}
	}
	return append(errs, metav1validation.ValidateConditions(p.Status.Conditions, path.Child("conditions"))...)
}

func defaultPolicyBinding(b *admissionv1.ValidatingAdmissionPolicyBinding) {
	defaultMatch(b.Spec.MatchResources)
}

func preparePolicyBindingCreate(_ metav1.Time, b, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
	b.Generation = 1
}

func preparePolicyBindingUpdate(_ metav1.Time, b, old *admissionv1.ValidatingAdmissionPolicyBinding) {
	if !equal(&b.Spec, &old.Spec) {
		b.Generation = old.Generation + 1
	}
}

func validatePolicyBinding(b, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := validateBound(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)
	return append(errs, validateActions(b.Spec.ValidationActions, specPath.Child("validationActions"))...)
}

// validateBound validates what the bindings of both kinds of policies have.
func validateBound(policy string, params *admissionv1.ParamRef, match *admissionv1.MatchResources) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(specPath.Child("policyName"), ""))
	} else {
		for _, msg := range apivalidation.NameIsDNSSubdomain(policy, false) {
			errs = append(errs, field.Invalid(specPath.Child("policyName"), policy, msg))
		}
	}
	errs = append(errs, validateParamRef(params, specPath.Child("paramRef"))...)
	return append(errs, validateMatch(match, specPath.Child("matchResources"))...)
}

func validateParamRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		for _, msg := range apipath.IsValidPathSegmentName(r.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), r.Name, msg))
		}
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), exclusive))
		}
	}
	if r.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(r.Selector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("selector"))...)
		if r.Name != "" {
			errs = append(errs, field.Forbidden(path.Child("selector"), exclusive))
		}
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	at := path.Child("parameterNotFoundAction")
	if action := r.ParameterNotFoundAction; action == nil || *action == "" {
		return append(errs, field.Required(at, ""))
	} else if *action != admissionv1.DenyAction && *action != admissionv1.AllowAction {
		errs = append(errs, field.NotSupported(at, *action,
			[]admissionv1.ParameterNotFoundActionType{admissionv1.DenyAction, admissionv1.AllowAction}))
	}
	return errs
}

func validateActions(actions []admissionv1.ValidationAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range actions {
		errs = append(errs, oneOf(a, path.Index(i), admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)...)
		if slices.Contains(actions[:i], a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation "+
			"failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		errs = append(errs, field.Required(path, "at least one validation action is required"))
	}
	return errs
}
