package apiserver

import (
	"context"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/volsim/volsim/fake"
)

// userKey is the key of a request's user in its context.
type userKey struct{}

// withUser returns a request of an authenticated user.
func withUser(r *http.Request, user authenticationv1.UserInfo) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user))
}

// client returns the client that answers a request: that of its user, or of the user that it impersonates.
func (r *request) client() *fake.Clientset {
	client := r.h.client(r.Request)
	if r.user != nil {
		return client.AsUser(*r.user)
	}
	if user, ok := r.Context().Value(userKey{}).(authenticationv1.UserInfo); ok {
		return client.AsUser(user)
	}
	return client
}

// asked returns what the request is, for decisions about it.
func (r *request) asked(parts []string) authorizationv1.SelfSubjectAccessReviewSpec {
	if !namesResource(parts) {
		return authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: strings.ToLower(r.Method), Path: r.URL.Path},
		}
	}
	t, _ := parsePath(parts)
	a := &authorizationv1.ResourceAttributes{
		Verb: r.apiVerb(t), Group: t.Group, Version: t.Version, Resource: t.Resource, Subresource: t.sub, Namespace: t.namespace, Name: t.name,
	}
	if t.Group == "" && t.Resource == "namespaces" {
		a.Namespace = t.name
	}
	if selector := r.query.Get("fieldSelector"); selector != "" && a.Name == "" {
		if s, err := fields.ParseSelector(selector); err == nil {
			a.Name, _ = s.RequiresExactMatch("metadata.name")
		}
	}
	return authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}
}

// authorize checks that the request's user may make it.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithAuthorization.
func (r *request) authorize(parts []string, asked authorizationv1.SelfSubjectAccessReviewSpec) error {
	if a := asked.ResourceAttributes; a != nil {
		switch t, _ := parsePath(parts); a.Verb {
		case "list", "watch", "deletecollection":
			if resource, served := r.client().Resource(t.GroupVersionResource, t.namespace); served {
				r.recordSeveral(resource, a.Verb, t.name)
				return nil // it checks itself, as it knows the selectors
			}
		}
	}
	client := r.client()
	if record := r.record(); record.Enabled() {
		allowed, reason := client.Decide(asked)
		record.Authorize(allowed, reason)
		if allowed {
			return nil
		}
	}
	return client.Authorize(asked)
}

// recordSeveral records the decision about a request for several objects.
func (r *request) recordSeveral(resource fake.ResourceClient, verb, name string) {
	record := r.record()
	if !record.Enabled() {
		return
	}
	selector := r.query.Get("fieldSelector")
	if name != "" {
		selector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	record.Authorize(resource.DecideSeveral(verb, selector))
}

// apiVerb returns the verb of a request for a resource, which need not exist.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/request RequestInfoFactory.NewRequestInfo.
func (r *request) apiVerb(t target) string {
	several := t.name == ""
	switch {
	case t.watch, r.Method == http.MethodGet && several && isWatch(r.query):
		return "watch"
	case r.Method == http.MethodGet && several:
		return "list"
	case r.Method == http.MethodDelete && several:
		return "deletecollection"
	}
	return map[string]string{
		http.MethodPost: "create", http.MethodGet: "get", http.MethodHead: "get", http.MethodPut: "update",
		http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
}
