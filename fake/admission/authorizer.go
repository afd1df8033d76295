package admission

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// access decides for expressions what users may do.
type access struct{ server *fake.Server }

// Authorize implements the authorizer of k8s.io/apiserver.
func (a access) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	by := asked.GetUser()
	info := authenticationv1.UserInfo{Username: by.GetName(), UID: by.GetUID(), Groups: by.GetGroups(), Extra: map[string]authenticationv1.ExtraValue{}}
	for name, values := range by.GetExtra() {
		info.Extra[name] = values
	}
	request := authorizationv1.SelfSubjectAccessReviewSpec{}
	if asked.IsResourceRequest() {
		request.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: asked.GetNamespace(), Verb: asked.GetVerb(), Group: asked.GetAPIGroup(), Version: asked.GetAPIVersion(),
			Resource: asked.GetResource(), Subresource: asked.GetSubresource(), Name: asked.GetName(),
		}
	} else {
		request.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: asked.GetPath(), Verb: asked.GetVerb()}
	}
	allowed, reason := a.server.Client(sim.DirectCaller()).AsUser(info).Decide(request)
	if !allowed {
		return authorizer.DecisionNoOpinion, reason, nil
	}
	return authorizer.DecisionAllow, reason, nil
}
