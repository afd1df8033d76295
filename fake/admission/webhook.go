package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
	"github.com/volsim/volsim/internal/webhookclient"
	"github.com/volsim/volsim/sim"
)

// webhooks calls the webhooks of a server.
type webhooks struct {
	server     *fake.Server
	services   webhookclient.Services
	clients    func() *webhookutil.ClientManager
	compiler   func() cel.ConditionCompiler
	namespaces *namespace.Matcher
	mutating   *kept[[]webhook.WebhookAccessor]
	validating *kept[[]webhook.WebhookAccessor]
	reviews    atomic.Int64 // number sent
}

func newWebhooks(server *fake.Server) *webhooks {
	w := &webhooks{server: server, services: webhookclient.Services{Server: server}}
	w.clients = sync.OnceValue(func() *webhookutil.ClientManager { return newClients(w.services) })
	w.compiler = sync.OnceValue(func() cel.ConditionCompiler {
		return cel.NewConditionCompiler(expressions())
	})
	w.namespaces = &namespace.Matcher{NamespaceLister: namespaces{server}, Client: server.Client(sim.DirectCaller())}
	w.mutating = newKept(server, w.listMutating, mutatingResource)
	w.validating = newKept(server, w.listValidating, validatingResource)
	return w
}

const (
	mutatingResource   = "mutatingwebhookconfigurations"
	validatingResource = "validatingwebhookconfigurations"
)

// newClients returns the clients of webhooks.
func newClients(services webhookclient.Services) *webhookutil.ClientManager {
	clients, err := webhookutil.NewClientManager([]schema.GroupVersion{admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion},
		admissionv1beta1.AddToScheme, admissionv1.AddToScheme)
	if err != nil {
		panic(fmt.Sprintf("admission: create clients of webhooks: %v", err)) // the types are constants
	}
	auth, err := webhookutil.NewDefaultAuthenticationInfoResolver("")
	if err != nil {
		panic(fmt.Sprintf("admission: create clients of webhooks: %v", err)) // it has no file to read
	}
	clients.SetAuthenticationInfoResolver(auth)
	clients.SetAuthenticationInfoResolverWrapper(services.Wrap)
	clients.SetServiceResolver(services)
	return &clients
}

// active reports whether there is a webhook.
func (w *webhooks) active() bool { return len(w.mutating.get())+len(w.validating.get()) > 0 }

// listMutating returns the mutating webhooks in the order of their calls: by the name of the configuration, then as
// they are in it.
func (w *webhooks) listMutating() []webhook.WebhookAccessor {
	var out []webhook.WebhookAccessor
	for _, obj := range w.server.List(mutatingResource) {
		c := obj.(*registrationv1.MutatingWebhookConfiguration).DeepCopy()
		number := map[string]int{}
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			out = append(out, webhook.NewMutatingWebhookAccessor(webhookID(c.Name, h.Name, number), c.Name, h))
		}
	}
	return out
}

// listValidating is listMutating for validating webhooks.
func (w *webhooks) listValidating() []webhook.WebhookAccessor {
	var out []webhook.WebhookAccessor
	for _, obj := range w.server.List(validatingResource) {
		c := obj.(*registrationv1.ValidatingWebhookConfiguration).DeepCopy()
		number := map[string]int{}
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			out = append(out, webhook.NewValidatingWebhookAccessor(webhookID(c.Name, h.Name, number), c.Name, h))
		}
	}
	return out
}

// webhookID returns what identifies a webhook among all. number has how often each name was there in the configuration.
func webhookID(configuration, name string, number map[string]int) string {
	number[name]++
	return fmt.Sprintf("%s/%s/%d", configuration, name, number[name]-1)
}

// A call is what a webhook is asked about.
type call struct {
	hook       webhook.WebhookAccessor
	resource   schema.GroupVersionResource
	attributes *admission.VersionedAttributes
	request    *admit.Request
}

// callOf returns the call of a webhook for a request as it is shown, or nil if the webhook is not concerned.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/generic Webhook.ShouldCallHook.
func (w *webhooks) callOf(ctx context.Context, hook webhook.WebhookAccessor, shown *seen) (*call, error) {
	r, attributes := shown.request, shown.attributes
	inNamespace, namespaceErr := w.namespaces.MatchNamespaceSelector(hook, attributes)
	if !inNamespace && namespaceErr == nil {
		return nil, nil
	}
	matches, objectErr := (&object.Matcher{}).MatchObjectSelector(hook, attributes)
	if !matches && objectErr == nil {
		return nil, nil
	}
	resource, kind, ok := ruled(hook, r, attributes)
	switch {
	case !ok:
		return nil, nil
	case namespaceErr != nil:
		return nil, namespaceErr
	case objectErr != nil:
		return nil, objectErr
	}
	versioned, err := admission.NewVersionedAttributes(attributes, kind, shown)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(hook.GetMatchConditions()) > 0 {
		result := hook.GetCompiledMatcher(w.compiler()).Match(ctx, versioned, nil, access{w.server})
		switch {
		case result.Error != nil:
			return nil, apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, result.Error)
		case !result.Matches:
			return nil, nil
		}
	}
	return &call{hook: hook, resource: resource, attributes: versioned, request: r}, nil
}

// ruled returns the resource and the kind with which the rules of a webhook select a request.
func ruled(hook webhook.WebhookAccessor, r *admit.Request, a admission.Attributes) (schema.GroupVersionResource, schema.GroupVersionKind, bool) {
	for _, rule := range hook.GetRules() {
		if (&rules.Matcher{Rule: rule, Attr: a}).Matches() {
			return r.Resource, r.Kind, true
		}
	}
	if p := hook.GetMatchPolicy(); p == nil || *p != registrationv1.Equivalent {
		return schema.GroupVersionResource{}, schema.GroupVersionKind{}, false
	}
	for _, rule := range hook.GetRules() {
		for _, v := range r.Versions {
			if (&rules.Matcher{Rule: rule, Attr: asResource{a, v.Resource}}).Matches() {
				return v.Resource, v.Kind, true
			}
		}
	}
	return schema.GroupVersionResource{}, schema.GroupVersionKind{}, false
}

// asResource is a request with another resource.
type asResource struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

// GetResource implements admission.Attributes.
func (a asResource) GetResource() schema.GroupVersionResource { return a.resource }
