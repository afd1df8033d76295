package admission

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
)

// validatingHooks are the compiled validating policies that have bindings, by name.
type validatingHooks struct {
	list     []validating.PolicyHook
	compiled map[string]compiledPolicy[validating.Validator]
}

// mutatingHooks are the compiled mutating policies that have bindings, by name.
type mutatingHooks struct {
	list     []mutating.PolicyHook
	compiled map[string]compiledPolicy[mutating.PolicyEvaluator]
}

// A compiledPolicy is a policy as of a resource version.
type compiledPolicy[E any] struct {
	version   string
	evaluator E
}

// compileValidating compiles the policies that have changed.
func (p *policies) compileValidating() *validatingHooks {
	before := p.validating.made.Load()
	out := &validatingHooks{compiled: map[string]compiledPolicy[validating.Validator]{}}
	var bindings []*validating.PolicyBinding
	for _, obj := range p.server.List(validatingBindings) {
		bindings = append(bindings, obj.(*validating.PolicyBinding))
	}
	byName, names := byPolicy(bindings, func(b *validating.PolicyBinding) string { return b.Spec.PolicyName })
	for _, name := range names {
		obj, ok := p.server.Get(validatingPolicies, "", name)
		if !ok {
			continue
		}
		policy := obj.(*validating.Policy)
		var is compiledPolicy[validating.Validator]
		if before != nil {
			is = before.value.compiled[name]
		}
		if is.version != policy.ResourceVersion {
			is = compiledPolicy[validating.Validator]{policy.ResourceVersion, compileValidator(policy)}
		}
		out.compiled[name] = is
		out.list = append(out.list, validating.PolicyHook{Policy: policy, Bindings: byName[name], Evaluator: is.evaluator})
	}
	return out
}

// compileMutating compiles the policies that have changed.
func (p *policies) compileMutating() *mutatingHooks {
	before := p.mutating.made.Load()
	out := &mutatingHooks{compiled: map[string]compiledPolicy[mutating.PolicyEvaluator]{}}
	var bindings []*mutating.PolicyBinding
	for _, obj := range p.server.List(mutatingBindings) {
		b := &mutating.PolicyBinding{}
		copyFields(obj, b)
		bindings = append(bindings, b)
	}
	byName, names := byPolicy(bindings, func(b *mutating.PolicyBinding) string { return b.Spec.PolicyName })
	for _, name := range names {
		obj, ok := p.server.Get(mutatingPolicies, "", name)
		if !ok {
			continue
		}
		policy := &mutating.Policy{}
		copyFields(obj, policy)
		var is compiledPolicy[mutating.PolicyEvaluator]
		if before != nil {
			is = before.value.compiled[name]
		}
		if is.version != policy.ResourceVersion {
			is = compiledPolicy[mutating.PolicyEvaluator]{policy.ResourceVersion, compileMutator(policy)}
		}
		out.compiled[name] = is
		out.list = append(out.list, mutating.PolicyHook{Policy: policy, Bindings: byName[name], Evaluator: is.evaluator})
	}
	return out
}

// copyFields copies a stored mutating policy or binding into the Go type that upstream's code takes, which has the same
// fields: k8s.io/apiserver has that of v1 from v0.36 on.
func copyFields(from fake.Object, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(fmt.Sprintf("admission: copy %T %q to %T: %v", from, from.GetName(), to, err)) // the types have the same fields
	}
}

// resolved returns the policies with the present resources of their parameters.
func (h *validatingHooks) resolved(server *fake.Server) []validating.PolicyHook {
	out := h.list
	for i := range out {
		if kind := out[i].Policy.Spec.ParamKind; kind != nil {
			if &out[0] == &h.list[0] {
				out = append([]validating.PolicyHook(nil), h.list...)
			}
			out[i].ParamInformer, out[i].ParamScope, out[i].ConfigurationError = paramsOf(server, kind)
		}
	}
	return out
}

// resolved returns the policies with the present resources of their parameters.
func (h *mutatingHooks) resolved(server *fake.Server) []mutating.PolicyHook {
	out := h.list
	for i := range out {
		if kind := out[i].Policy.Spec.ParamKind; kind != nil {
			if &out[0] == &h.list[0] {
				out = append([]mutating.PolicyHook(nil), h.list...)
			}
			out[i].ParamInformer, out[i].ParamScope, out[i].ConfigurationError = paramsOf(server, (*admissionv1.ParamKind)(kind))
		}
	}
	return out
}

// paramsOf returns where the parameters of a kind are, or the error of a kind that is not served.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic policySource.ensureParamsForPolicyLocked.
func paramsOf(server *fake.Server, kind *admissionv1.ParamKind) (informers.GenericInformer, meta.RESTScope, error) {
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	gvk := gv.WithKind(kind.Kind)
	for _, r := range server.Resources() {
		if r.Group == gvk.Group && r.Version == gvk.Version && r.Kind == gvk.Kind && isListed(&r) {
			return params{server, gv.WithResource(r.Name), ""}, scopeOf(&r), nil
		}
	}
	return nil, nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}
