package admission

import (
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A compilation compiles the expressions of one policy. Upstream's own functions do the same, but are not exported.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/policy, validating and mutating, compilePolicy.
type compilation struct {
	compiler *cel.CompositedCompiler
	declared cel.OptionalVariableDeclarations
}

// newCompilation returns the compiler of a policy with variables.
func newCompilation(hasParams bool, variables []cel.NamedExpressionAccessor) compilation {
	compiler, err := cel.NewCompositedCompiler(expressions())
	if err != nil {
		panic(fmt.Sprintf("admission: create CEL compiler: %v", err)) // the environment is a constant
	}
	c := compilation{compiler, cel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}}
	compiler.CompileAndStoreVariables(variables, c.declared, environment.StoredExpressions)
	return c
}

// expressions is the environment of all expressions.
func expressions() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

func (c compilation) conditions(all []cel.ExpressionAccessor) cel.ConditionEvaluator {
	return c.compiler.CompileCondition(all, c.declared, environment.StoredExpressions)
}

// matcher returns the matcher of match conditions. nil: there are none.
func (c compilation) matcher(conditions []cel.ExpressionAccessor, failure *admissionv1.FailurePolicyType, policy string) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	return matchconditions.NewMatcher(c.conditions(conditions), failure, "policy", "validate", policy)
}

// compileValidator compiles a validating policy. Errors of expressions are those of their evaluation.
func compileValidator(p *validating.Policy) validating.Validator {
	spec := &p.Spec
	var variables []cel.NamedExpressionAccessor
	for _, v := range spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	c := newCompilation(spec.ParamKind != nil, variables)
	var conditions []cel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	checks, messages := make([]cel.ExpressionAccessor, len(spec.Validations)), make([]cel.ExpressionAccessor, len(spec.Validations))
	for i, v := range spec.Validations {
		checks[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	var annotations []cel.ExpressionAccessor
	for _, a := range spec.AuditAnnotations {
		annotations = append(annotations, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	matcher := c.matcher(conditions, spec.FailurePolicy, p.Name)
	withoutAuthorizer := c
	withoutAuthorizer.declared.HasAuthorizer = false
	return newValidator(c.conditions(checks), matcher, c.conditions(annotations), withoutAuthorizer.conditions(messages), spec.FailurePolicy)
}

// newValidator calls upstream's NewValidator, which has one more parameter from v0.36 on: an error of compilation.
func newValidator(args ...any) validating.Validator {
	create := reflect.ValueOf(validating.NewValidator)
	in := make([]reflect.Value, create.Type().NumIn())
	for i := range in {
		in[i] = reflect.Zero(create.Type().In(i))
		if i < len(args) && args[i] != nil {
			in[i] = reflect.ValueOf(args[i])
		}
	}
	return create.Call(in)[0].Interface().(validating.Validator)
}

// compileMutator compiles a mutating policy. Errors of expressions are those of their evaluation.
func compileMutator(p *mutating.Policy) mutating.PolicyEvaluator {
	spec := &p.Spec
	var variables []cel.NamedExpressionAccessor
	for _, v := range spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	c := newCompilation(spec.ParamKind != nil, variables)
	var conditions []cel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	patching := c.declared
	patching.HasPatchTypes = true
	var patches []patch.Patcher
	for _, m := range spec.Mutations {
		if m.JSONPatch != nil {
			expression := &patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}
			patches = append(patches, patch.NewJSONPatcher(c.compiler.CompileMutatingEvaluator(expression, patching, environment.StoredExpressions)))
		}
		if m.ApplyConfiguration != nil {
			expression := &patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}
			patches = append(patches, patch.NewApplyConfigurationPatcher(c.compiler.CompileMutatingEvaluator(expression, patching, environment.StoredExpressions)))
		}
	}
	matcher := c.matcher(conditions, (*admissionv1.FailurePolicyType)(spec.FailurePolicy), p.Name)
	return withVariables(mutating.PolicyEvaluator{Matcher: matcher, Mutators: patches}, c.compiler)
}

// withVariables sets what evaluates the variables of a policy, whose field has another name and type from v0.36 on.
func withVariables(e mutating.PolicyEvaluator, compiler *cel.CompositedCompiler) mutating.PolicyEvaluator {
	fields, from := reflect.ValueOf(&e).Elem(), reflect.ValueOf(compiler)
	if f := fields.FieldByName("CompositedCompiler"); f.IsValid() {
		f.Set(from)
	} else {
		fields.FieldByName("CompositionEnv").Set(from.Elem().FieldByName("CompositionEnv"))
	}
	return e
}
