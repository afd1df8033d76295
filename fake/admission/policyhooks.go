package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
)

// A policySort is one of the two sorts of policies. P and B are upstream's Go types of its policies and bindings, E is
// what evaluates a policy.
type policySort[P, B fake.Object, E generic.Evaluator] struct {
	policies, bindings string // resources
	policy             func(stored fake.Object) P
	binding            func(stored fake.Object) B
	bound              func(B) string // the name of a binding's policy
	compile            func(P) E
	params             func(P) *admissionv1.ParamKind
}

var validatingSort = policySort[*validating.Policy, *validating.PolicyBinding, validating.Validator]{
	policies: validatingPolicies, bindings: validatingBindings,
	policy:  func(stored fake.Object) *validating.Policy { return stored.(*validating.Policy) },
	binding: func(stored fake.Object) *validating.PolicyBinding { return stored.(*validating.PolicyBinding) },
	bound:   func(b *validating.PolicyBinding) string { return b.Spec.PolicyName },
	compile: compileValidator,
	params:  func(p *validating.Policy) *admissionv1.ParamKind { return p.Spec.ParamKind },
}

var mutatingSort = policySort[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]{
	policies: mutatingPolicies, bindings: mutatingBindings,
	policy:  copied[mutating.Policy],
	binding: copied[mutating.PolicyBinding],
	bound:   func(b *mutating.PolicyBinding) string { return b.Spec.PolicyName },
	compile: compileMutator,
	params:  func(p *mutating.Policy) *admissionv1.ParamKind { return (*admissionv1.ParamKind)(p.Spec.ParamKind) },
}

// copied copies a stored mutating policy or binding into the Go type that upstream's code takes, which has the same
// fields: k8s.io/apiserver has that of v1 from v0.36 on.
func copied[T any](stored fake.Object) *T {
	to := new(T)
	data, err := json.Marshal(stored)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(fmt.Sprintf("admission: copy %T %q to %T: %v", stored, stored.GetName(), to, err)) // the types have the same fields
	}
	return to
}

// hooks are the compiled policies that have bindings, by name.
type hooks[P, B fake.Object, E generic.Evaluator] struct {
	sort     *policySort[P, B, E]
	list     []generic.PolicyHook[P, B, E]
	compiled map[string]compiledPolicy[E]
}

// A compiledPolicy is a policy as of a resource version.
type compiledPolicy[E any] struct {
	version   string
	evaluator E
}

// compiled returns the policies of a sort. Of those before it takes what has not changed; nil: there are none.
func (of *policySort[P, B, E]) compiled(server *fake.Server, before *hooks[P, B, E]) *hooks[P, B, E] {
	out := &hooks[P, B, E]{sort: of, compiled: map[string]compiledPolicy[E]{}}
	bindings := map[string][]B{}
	for _, obj := range server.List(of.bindings) {
		b := of.binding(obj)
		bindings[of.bound(b)] = append(bindings[of.bound(b)], b)
	}
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		obj, ok := server.Get(of.policies, "", name)
		if !ok {
			continue
		}
		policy := of.policy(obj)
		var is compiledPolicy[E]
		if before != nil {
			is = before.compiled[name]
		}
		if is.version != obj.GetResourceVersion() {
			is = compiledPolicy[E]{obj.GetResourceVersion(), of.compile(policy)}
		}
		out.compiled[name] = is
		out.list = append(out.list, generic.PolicyHook[P, B, E]{Policy: policy, Bindings: bindings[name], Evaluator: is.evaluator})
	}
	return out
}

// resolved returns the policies with the present resources of their parameters.
func (h *hooks[P, B, E]) resolved(server *fake.Server) []generic.PolicyHook[P, B, E] {
	hasParams := func(hook generic.PolicyHook[P, B, E]) bool { return h.sort.params(hook.Policy) != nil }
	if !slices.ContainsFunc(h.list, hasParams) {
		return h.list
	}
	out := slices.Clone(h.list)
	for i := range out {
		if kind := h.sort.params(out[i].Policy); kind != nil {
			out[i].ParamInformer, out[i].ParamScope, out[i].ConfigurationError = paramsOf(server, kind)
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
