package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/warning"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
	"github.com/volsim/volsim/sim"
)

// policies evaluates the admission policies of a server. It is safe for concurrent use: what it has compiled is
// immutable, and made again when a policy or a binding has changed.
//
// Upstream's own code decides, given what the server stores: its dispatchers, with its matchers and evaluators. Policies
// are evaluated in the order of their names, the bindings of each in the order of theirs, and parameters by namespace and
// name.
//
// Differs: a changed policy, binding, parameter or definition counts from the next request on; upstream's informers see
// it a moment later. Upstream has no order.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/policy.
type policies struct {
	server     *fake.Server
	validating *kept[*hooks[*validating.Policy, *validating.PolicyBinding, validating.Validator]]
	mutating   *kept[*hooks[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]]

	validator generic.Dispatcher[validating.PolicyHook]
	mutator   generic.Dispatcher[mutating.PolicyHook]
}

func newPolicies(server *fake.Server) *policies {
	p := &policies{server: server}
	p.validating = keptHooks(server, &validatingSort)
	p.mutating = keptHooks(server, &mutatingSort)
	matcher := matching.NewMatcher(namespaces{server}, server.Client(sim.DirectCaller()))
	p.validator = validating.NewDispatcher(access{server}, generic.NewPolicyMatcher(matcher))
	p.mutator = mutating.NewDispatcher(access{server}, matcher, mergeTypes{server})
	return p
}

// keptHooks returns the policies of a sort.
func keptHooks[P, B fake.Object, E generic.Evaluator](server *fake.Server, of *policySort[P, B, E]) *kept[*hooks[P, B, E]] {
	var k *kept[*hooks[P, B, E]]
	k = newKept(server, func() *hooks[P, B, E] {
		var before *hooks[P, B, E]
		if made := k.made.Load(); made != nil {
			before = made.value
		}
		return of.compiled(server, before)
	}, of.policies, of.bindings)
	return k
}

// The resources of policies and bindings.
const (
	validatingPolicies = "validatingadmissionpolicies"
	validatingBindings = "validatingadmissionpolicybindings"
	mutatingPolicies   = "mutatingadmissionpolicies"
	mutatingBindings   = "mutatingadmissionpolicybindings"
)

// unjudged are the resources about which no policy is asked: policies, so that none can lock itself in, and reviews.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic admissionResources;
// pkg/kubeapiserver/admission/exclusion.
var unjudged = []schema.GroupResource{
	{Group: group, Resource: validatingPolicies},
	{Group: group, Resource: validatingBindings},
	{Group: group, Resource: mutatingPolicies},
	{Group: group, Resource: mutatingBindings},
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// active reports whether a policy has a binding.
func (p *policies) active() bool {
	return len(p.validating.get().list)+len(p.mutating.get().list) > 0
}

// validate asks the validating policies about a request. The audit annotations of their decisions go to the audit event
// of the context, if it has one.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating Plugin.Validate.
func (p *policies) validate(ctx context.Context, r *admit.Request) error {
	compiled := p.validating.get()
	if len(compiled.list) == 0 || slices.Contains(unjudged, r.Resource.GroupResource()) {
		return nil
	}
	seen, err := newSeen(p.server, r)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	hooks := compiled.resolved(p.server)
	audited := admission.WithAudit(validateFunc(func(ctx context.Context) error {
		return p.validator.Dispatch(ctx, seen.attributes, seen, hooks)
	})).(admission.ValidationInterface)
	return audited.Validate(warning.WithWarningRecorder(ctx, warnings{r}), seen.attributes, seen)
}

// validateFunc is a plugin that validates.
type validateFunc func(ctx context.Context) error

// Handles reports whether the plugin handles an operation: all.
func (validateFunc) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (f validateFunc) Validate(ctx context.Context, _ admission.Attributes, _ admission.ObjectInterfaces) error {
	return f(ctx)
}

// warnings adds warnings to the answer of a request.
type warnings struct{ request *admit.Request }

// AddWarning implements warning.Recorder.
func (w warnings) AddWarning(_, text string) { w.request.Warn(text) }

// mutate lets the mutating policies change a request. In the second pass only those change it again that have the
// reinvocation policy IfNeeded, if the object has changed since. The passes of one request share state, which is empty at
// first.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/mutating Plugin.Admit.
func (p *policies) mutate(ctx context.Context, r *admit.Request, state *passes) error {
	compiled := p.mutating.get()
	if len(compiled.list) == 0 || r.Operation == "DELETE" || slices.Contains(unjudged, r.Resource.GroupResource()) {
		return nil
	}
	seen, err := newSeen(p.server, r)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if state.shared == nil {
		state.shared = seen.attributes.GetReinvocationContext()
	}
	if r.Again {
		state.shared.SetIsReinvoke()
	}
	attributes := inPass{seen.attributes, state.shared}
	err = p.mutator.Dispatch(warning.WithWarningRecorder(ctx, warnings{r}), attributes, seen, compiled.resolved(p.server))
	if err == nil {
		err = seen.err
	}
	return err
}

// passes is what the passes of the mutation of one request have in common. The zero value is that of a new request.
//
// Upstream: k8s.io/apiserver/pkg/admission reinvoker.
type passes struct{ shared admission.ReinvocationContext }

// inPass is a request in one of the passes of mutation.
type inPass struct {
	admission.Attributes
	shared admission.ReinvocationContext
}

// GetReinvocationContext implements admission.Attributes.
func (a inPass) GetReinvocationContext() admission.ReinvocationContext { return a.shared }

// namespaces lists the stored namespaces.
type namespaces struct{ server *fake.Server }

var _ listersv1.NamespaceLister = namespaces{}

// List implements listersv1.NamespaceLister.
func (n namespaces) List(selector labels.Selector) ([]*corev1.Namespace, error) {
	var out []*corev1.Namespace
	for _, obj := range n.server.List("namespaces") {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, obj.(*corev1.Namespace))
		}
	}
	return out, nil
}

// Get implements listersv1.NamespaceLister.
func (n namespaces) Get(name string) (*corev1.Namespace, error) {
	obj, ok := n.server.Get("namespaces", "", name)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return obj.(*corev1.Namespace), nil
}

// scopeOf returns the scope of a resource.
func scopeOf(r *fake.APIResource) meta.RESTScope {
	if r.Namespaced {
		return meta.RESTScopeNamespace
	}
	return meta.RESTScopeRoot
}
