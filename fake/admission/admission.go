package admission

import (
	"context"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
	"github.com/volsim/volsim/internal/definitions"
)

func init() { definitions.RegisterAdmission(Serve) }

// Serve makes a server call webhooks and evaluate policies, before the server is used. Further calls do nothing.
func Serve(server *fake.Server) {
	if server.Admitter() != nil {
		return
	}
	server.SetAdmitter(&admitter{webhooks: newWebhooks(server), policies: newPolicies(server)})
}

// admitter admits the requests of a server. Mutating policies come before mutating webhooks, and validating policies
// before validating webhooks.
//
// Upstream: k8s.io/apiserver/pkg/server RecommendedPluginOrder.
type admitter struct {
	webhooks *webhooks
	policies *policies
}

// mutations is what the first round of mutations leaves for the second.
type mutations struct {
	policies passes
	webhooks rounds
}

var _ admit.Admitter = (*admitter)(nil)

// Admits reports whether there is a webhook or a policy.
func (a *admitter) Admits() bool { return a.webhooks.active() || a.policies.active() }

// Mutate implements admit.Admitter.
func (a *admitter) Mutate(ctx context.Context, r *admit.Request) error {
	state, ok := r.State.(*mutations)
	if !ok {
		state = &mutations{webhooks: rounds{invoked: map[string]bool{}, again: map[string]bool{}}}
		r.State = state
	}
	if err := a.policies.mutate(ctx, r, &state.policies); err != nil {
		return err
	}
	if isExempt(r) {
		return nil
	}
	return a.webhooks.mutate(ctx, r, &state.webhooks)
}

// Validate implements admit.Admitter.
func (a *admitter) Validate(ctx context.Context, r *admit.Request) error {
	if err := a.policies.validate(ctx, r); err != nil || isExempt(r) {
		return err
	}
	return a.webhooks.validate(ctx, r)
}

// ValidateConfiguration implements admit.Admitter.
func (a *admitter) ValidateConfiguration(obj, old runtime.Object) field.ErrorList {
	return a.policies.validateConfiguration(obj, old)
}

// exempt are the kinds about which no webhook is asked, so that none can lock itself in. Policies exempt policies only.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules IsExemptAdmissionConfigurationResource.
var exempt = []string{
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}

func isExempt(r *admit.Request) bool {
	return r.Kind.Group == group && slices.Contains(exempt, r.Kind.Kind)
}

const group = "admissionregistration.k8s.io"

// kept is something that is made of the stored objects of some resources, and made again when one of them has changed.
type kept[T any] struct {
	make       func() T
	generation atomic.Int64 // number of changes
	made       atomic.Pointer[keptValue[T]]
}

type keptValue[T any] struct {
	value      T
	generation int64
}

// newKept returns what create makes of the objects of some resources.
func newKept[T any](server *fake.Server, create func() T, resources ...string) *kept[T] {
	k := &kept[T]{make: create}
	server.OnCommit(func(c fake.Commit) {
		if slices.Contains(resources, c.Resource) {
			k.generation.Add(1)
		}
	})
	return k
}

// get returns the present value.
func (k *kept[T]) get() T {
	generation := k.generation.Load()
	if v := k.made.Load(); v != nil && v.generation == generation {
		return v.value
	}
	v := &keptValue[T]{value: k.make(), generation: generation}
	k.made.Store(v)
	return v.value
}
