package admission

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

const auditExpressionMax = 5 << 10 // bytes; longer ones are refused without compilation

var specPath = field.NewPath("spec")

// validateConfiguration returns the errors in the expressions of a policy, or of the match conditions of webhooks, that
// will be stored. old is nil for a creation. Expressions that are stored already may use what only older servers had.
//
// Upstream: pkg/apis/admissionregistration/validation.
func (p *policies) validateConfiguration(obj, old runtime.Object) field.ErrorList {
	switch o := obj.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		was, _ := old.(*admissionv1.ValidatingAdmissionPolicy)
		return validatingErrors(o, was)
	case *admissionv1beta1.MutatingAdmissionPolicy:
		was, _ := old.(*admissionv1beta1.MutatingAdmissionPolicy)
		return mutatingErrors(o, was)
	case *admissionv1.ValidatingWebhookConfiguration:
		var before [][]admissionv1.MatchCondition
		if was, ok := old.(*admissionv1.ValidatingWebhookConfiguration); ok {
			before = validatingConditions(was)
		}
		return webhookErrors(validatingConditions(o), before, old != nil)
	case *admissionv1.MutatingWebhookConfiguration:
		var before [][]admissionv1.MatchCondition
		if was, ok := old.(*admissionv1.MutatingWebhookConfiguration); ok {
			before = mutatingConditions(was)
		}
		return webhookErrors(mutatingConditions(o), before, old != nil)
	}
	return nil
}

func validatingConditions(c *admissionv1.ValidatingWebhookConfiguration) [][]admissionv1.MatchCondition {
	var out [][]admissionv1.MatchCondition
	for _, h := range c.Webhooks {
		out = append(out, h.MatchConditions)
	}
	return out
}

func mutatingConditions(c *admissionv1.MutatingWebhookConfiguration) [][]admissionv1.MatchCondition {
	var out [][]admissionv1.MatchCondition
	for _, h := range c.Webhooks {
		out = append(out, h.MatchConditions)
	}
	return out
}

// webhookErrors returns the errors in the match conditions of webhooks. An update that changes none is not checked.
func webhookErrors(now, before [][]admissionv1.MatchCondition, updated bool) field.ErrorList {
	if updated && slices.EqualFunc(now, before, func(a, b []admissionv1.MatchCondition) bool { return reflect.DeepEqual(a, b) }) {
		return nil
	}
	var stored []string
	for _, conditions := range before {
		for _, c := range conditions {
			stored = append(stored, c.Expression)
		}
	}
	var errs field.ErrorList
	for i, conditions := range now {
		path := field.NewPath("webhooks").Index(i).Child("matchConditions")
		errs = append(errs, conditionErrors(conditions, stored, false, path)...)
	}
	return errs
}

// conditionErrors returns the errors in match conditions, which know no variables.
func conditionErrors(conditions []admissionv1.MatchCondition, stored []string, hasParams bool, path *field.Path) field.ErrorList {
	c := checker{compiler: cel.NewCompiler(expressions()), declared: cel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}}
	for i, condition := range conditions {
		text := strings.TrimSpace(condition.Expression)
		c.check(text, &matchconditions.MatchCondition{Name: condition.Name, Expression: text}, slices.Contains(stored, text),
			path.Index(i).Child("expression"))
	}
	return c.errs
}

// A checker compiles expressions and collects the errors.
type checker struct {
	compiler cel.Compiler
	declared cel.OptionalVariableDeclarations
	errs     field.ErrorList
}

// check compiles an expression; text is what the API object has. An empty one is an error already.
func (c *checker) check(text string, expression cel.ExpressionAccessor, stored bool, path *field.Path) {
	if strings.TrimSpace(text) == "" {
		return
	}
	c.report(c.compiler.CompileCELExpression(expression, c.declared, environmentOf(stored)).Error, expression.GetExpression(), path)
}

func environmentOf(stored bool) environment.Type {
	if stored {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// report adds the error of a compilation.
func (c *checker) report(err *apiservercel.Error, expression string, path *field.Path) {
	if err == nil {
		return
	}
	var out *field.Error
	switch err.Type {
	case apiservercel.ErrorTypeRequired:
		out = field.Required(path, err.Detail)
	case apiservercel.ErrorTypeInvalid:
		out = field.Invalid(path, expression, err.Detail)
	case apiservercel.ErrorTypeInternal:
		out = field.InternalError(path, err)
	default:
		out = field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
	}
	c.errs = append(c.errs, out)
}

// newChecker returns a checker for the expressions of a policy, which know its variables.
func newChecker(variables []admissionv1.Variable, stored []string, hasParams, composed bool) *checker {
	c := &checker{declared: cel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}}
	if !composed && len(variables) == 0 {
		c.compiler = cel.NewCompiler(expressions())
		return c
	}
	compiler, err := cel.NewCompositedCompiler(expressions())
	if err != nil {
		panic(fmt.Sprintf("admission: create CEL compiler: %v", err)) // the environment is a constant
	}
	c.compiler = compiler
	for i, v := range variables {
		if strings.TrimSpace(v.Expression) == "" {
			continue
		}
		variable := &validating.Variable{Name: v.Name, Expression: v.Expression}
		result := compiler.CompileAndStoreVariable(variable, c.declared, environmentOf(slices.Contains(stored, v.Expression)))
		c.report(result.Error, v.Expression, specPath.Child("variables").Index(i).Child("expression"))
	}
	return c
}

// validatingErrors returns the errors in the expressions of a validating policy.
func validatingErrors(p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var conditions, checks, messages, annotations []string // stored expressions
	if old != nil {
		for _, c := range old.Spec.MatchConditions {
			conditions = append(conditions, c.Expression)
		}
		for _, v := range old.Spec.Validations {
			checks, messages = append(checks, v.Expression), append(messages, v.MessageExpression)
		}
		for _, a := range old.Spec.AuditAnnotations {
			annotations = append(annotations, a.ValueExpression)
		}
	}
	spec, hasParams := &p.Spec, p.Spec.ParamKind != nil
	var errs field.ErrorList
	if old == nil || !reflect.DeepEqual(spec.ParamKind, old.Spec.ParamKind) || !slices.Equal(spec.MatchConditions, old.Spec.MatchConditions) {
		errs = conditionErrors(spec.MatchConditions, conditions, hasParams, specPath.Child("matchConditions"))
	}
	c := newChecker(spec.Variables, checks, hasParams, false)
	for i, v := range spec.Validations {
		path := specPath.Child("validations").Index(i)
		c.check(v.Expression, &validating.ValidationCondition{Expression: v.Expression}, slices.Contains(checks, v.Expression), path.Child("expression"))
		c.declared.HasAuthorizer = false
		c.check(v.MessageExpression, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression},
			slices.Contains(messages, v.MessageExpression), path.Child("messageExpression"))
		c.declared.HasAuthorizer = true
	}
	for i, a := range spec.AuditAnnotations {
		text := strings.TrimSpace(a.ValueExpression)
		if text == "" || len(text) > auditExpressionMax {
			continue
		}
		expression := &validating.AuditAnnotationCondition{ValueExpression: text}
		stored := environmentOf(slices.Contains(annotations, a.ValueExpression))
		c.report(c.compiler.CompileCELExpression(expression, c.declared, stored).Error, a.ValueExpression,
			specPath.Child("auditAnnotations").Index(i).Child("valueExpression"))
	}
	return append(errs, c.errs...)
}

// mutatingErrors returns the errors in the expressions of a mutating policy.
func mutatingErrors(p, old *admissionv1beta1.MutatingAdmissionPolicy) field.ErrorList {
	var conditions, configurations []string // stored expressions
	if old != nil {
		for _, c := range old.Spec.MatchConditions {
			conditions = append(conditions, c.Expression)
		}
		for _, m := range old.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				configurations = append(configurations, m.ApplyConfiguration.Expression)
			}
		}
	}
	spec, hasParams := &p.Spec, p.Spec.ParamKind != nil
	var errs field.ErrorList
	if old == nil || !reflect.DeepEqual(spec.ParamKind, old.Spec.ParamKind) || !slices.Equal(spec.MatchConditions, old.Spec.MatchConditions) {
		var all []admissionv1.MatchCondition
		for _, c := range spec.MatchConditions {
			all = append(all, admissionv1.MatchCondition(c))
		}
		errs = conditionErrors(all, conditions, hasParams, specPath.Child("matchConditions"))
	}
	var variables []admissionv1.Variable
	for _, v := range spec.Variables {
		variables = append(variables, admissionv1.Variable(v))
	}
	c := newChecker(variables, nil, hasParams, true)
	c.declared.HasPatchTypes = true
	for i, m := range spec.Mutations {
		path := specPath.Child("mutations").Index(i)
		switch { // upstream looks up stored patches among the configurations
		case m.PatchType == admissionv1beta1.PatchTypeJSONPatch && m.JSONPatch != nil:
			text := m.JSONPatch.Expression
			c.check(text, &patch.JSONPatchCondition{Expression: strings.TrimSpace(text)}, slices.Contains(configurations, text),
				path.Child("jsonPatch", "expression"))
		case m.PatchType == admissionv1beta1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			text := m.ApplyConfiguration.Expression
			c.check(text, &patch.ApplyConfigurationCondition{Expression: strings.TrimSpace(text)}, slices.Contains(configurations, text),
				path.Child("applyConfiguration", "expression"))
		}
	}
	return append(errs, c.errs...)
}
