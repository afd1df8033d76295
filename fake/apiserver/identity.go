package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/rbac"
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

// authorize checks that the user may make the request.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithAuthorization.
func (r *request) authorize(parts []string) error {
	if !namesResource(parts) {
		return r.check(authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: strings.ToLower(r.Method), Path: r.URL.Path},
		})
	}
	t, _ := parsePath(parts)
	a := &authorizationv1.ResourceAttributes{
		Verb: r.apiVerb(t), Group: t.Group, Version: t.Version, Resource: t.Resource, Subresource: t.sub, Namespace: t.namespace, Name: t.name,
	}
	if t.Group == "" && t.Resource == "namespaces" {
		a.Namespace = t.name
	}
	client := r.client()
	switch a.Verb {
	case "list", "watch", "deletecollection":
		if resource, served := client.Resource(t.GroupVersionResource, t.namespace); served {
			r.recordSeveral(resource, a.Verb, t.name)
			return nil // it checks itself, as it knows the selectors
		}
	}
	return r.check(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a})
}

// check checks that the request's user may make a request, and records the decision.
func (r *request) check(about authorizationv1.SelfSubjectAccessReviewSpec) error {
	if record := r.record(); record.Enabled() {
		record.Authorize(r.client().Decide(about))
	}
	return r.client().Authorize(about)
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

// impersonate makes the request one of the user that its headers name, if the user that makes it may
// impersonate that one.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation WithImpersonation.
func (r *request) impersonate() error {
	user := authenticationv1.UserInfo{Username: r.Header.Get(authenticationv1.ImpersonateUserHeader)}
	groups := r.Header[authenticationv1.ImpersonateGroupHeader]
	extra := extraOf(r.Header)
	user.UID = r.Header.Get(authenticationv1.ImpersonateUIDHeader)
	if user.Username == "" {
		if len(groups)+len(extra) > 0 || user.UID != "" {
			return apierrors.NewBadRequest(fmt.Sprintf("requested %v without impersonating a user", unnamed(groups, extra, user.UID)))
		}
		return nil
	}
	may := r.client()
	check := func(group, resource, subresource, namespace, name string) error {
		return may.Authorize(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "impersonate", Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
		}})
	}
	var err error
	if namespace, name, isAccount := rbac.SplitAccount(user.Username); isAccount {
		err = check("", "serviceaccounts", "", namespace, name)
		if len(groups) == 0 {
			user.Groups = slices.Clone(fake.AccountUser(namespace, name).Groups)
		}
	} else {
		err = check("", "users", "", "", user.Username)
	}
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := check("", "groups", "", "", group); err != nil {
			return err
		}
		user.Groups = append(user.Groups, group)
	}
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		for _, value := range extra[k] {
			if err := check(authenticationv1.GroupName, "userextras", k, "", value); err != nil {
				return err
			}
		}
		if user.Extra == nil {
			user.Extra = map[string]authenticationv1.ExtraValue{}
		}
		user.Extra[k] = extra[k]
	}
	if user.UID != "" {
		if err := check(authenticationv1.GroupName, "uids", "", "", user.UID); err != nil {
			return err
		}
	}
	user.Groups = withImplied(user)
	r.user = &user
	r.record().Impersonate(&user)
	return nil
}

// withImplied returns the groups of an impersonated user with that of all users of its sort.
func withImplied(user authenticationv1.UserInfo) []string {
	has := func(group string) bool { return slices.Contains(user.Groups, group) }
	switch {
	case user.Username == rbac.AnonymousUser && !has(rbac.UnauthenticatedGroup):
		return append(user.Groups, rbac.UnauthenticatedGroup)
	case user.Username != rbac.AnonymousUser && !has(rbac.AuthenticatedGroup) && !has(rbac.UnauthenticatedGroup):
		return append(user.Groups, rbac.AuthenticatedGroup)
	}
	return user.Groups
}

// extraOf returns the extra values of an impersonated user.
func extraOf(header http.Header) map[string]authenticationv1.ExtraValue {
	extra := map[string]authenticationv1.ExtraValue{}
	for name, values := range header {
		encoded, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		k := strings.ToLower(encoded)
		if decoded, err := url.PathUnescape(k); err == nil {
			k = decoded
		}
		extra[k] = append(extra[k], values...)
	}
	return extra
}

// unnamed are the objects that a request impersonates, in the form of upstream's message.
func unnamed(groups []string, extra map[string]authenticationv1.ExtraValue, uid string) []corev1.ObjectReference {
	var out []corev1.ObjectReference
	for _, group := range groups {
		out = append(out, corev1.ObjectReference{Kind: "Group", Name: group})
	}
	version := authenticationv1.SchemeGroupVersion.String()
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		for _, value := range extra[k] {
			out = append(out, corev1.ObjectReference{Kind: "UserExtra", APIVersion: version, Name: value, FieldPath: k})
		}
	}
	if uid != "" {
		out = append(out, corev1.ObjectReference{Kind: "UID", APIVersion: version, Name: uid})
	}
	return out
}
