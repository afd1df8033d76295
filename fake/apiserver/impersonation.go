package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/rbac"
)

// This file has impersonation. It is constrained: the user needs a right to impersonate that one, and a right to make
// just this request as one of that sort. The older verb impersonate, which has no such limit, comes last.
//
// Differs: nothing is cached. A refusal has always the text of the first sort that applies; upstream begins with the sort that
// succeeded last for the user.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation (v1.36).

const (
	nodePrefix       = "system:node:"
	nodesGroup       = "system:nodes"
	mastersGroup     = "system:masters"
	nodeNameExtra    = "authentication.kubernetes.io/node-name"
	wildcardFrom     = 4 // groups, or extra values, that are first checked all at once
	legacyMode       = "impersonate"
	impersonationMsg = "requested &user.DefaultInfo{Name:%q, UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name"
)

// An impersonation is a user that wants to make a request as another one.
type impersonation struct {
	by      *fake.Clientset
	user    authenticationv1.UserInfo // that wants to
	wanted  authenticationv1.UserInfo // as the headers say
	request authorizationv1.SelfSubjectAccessReviewSpec
}

// impersonate makes the request one of the user that its headers name, if the user that makes it may
// impersonate that one.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation WithConstrainedImpersonation.
func (r *request) impersonate(request authorizationv1.SelfSubjectAccessReviewSpec) error {
	wanted := authenticationv1.UserInfo{
		Username: r.Header.Get(authenticationv1.ImpersonateUserHeader), UID: r.Header.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(r.Header[authenticationv1.ImpersonateGroupHeader]), Extra: extraOf(r.Header),
	}
	if wanted.Username == "" {
		if wanted.UID == "" && len(wanted.Groups)+len(wanted.Extra) == 0 {
			return nil
		}
		var extra map[string][]string
		for k, values := range wanted.Extra {
			if extra == nil {
				extra = map[string][]string{}
			}
			extra[k] = values
		}
		return apierrors.NewBadRequest(fmt.Sprintf(impersonationMsg, "", wanted.UID, wanted.Groups, extra))
	}
	by := r.client()
	i := impersonation{by: by, user: by.User(), wanted: wanted, request: request}
	var first error
	for _, mode := range []string{"associated-node", "arbitrary-node", "serviceaccount", "user-info", legacyMode} {
		if mode != legacyMode && !i.applies(mode) {
			continue
		}
		user, err := i.check(mode)
		if err == nil {
			r.user = &user
			r.record().Impersonate(&user)
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// applies reports whether the wanted user is one of the mode's.
func (i impersonation) applies(mode string) bool {
	w := i.wanted
	bare := w.UID == "" && len(w.Groups)+len(w.Extra) == 0
	node, isNode := nodeNamed(w.Username)
	_, _, isAccount := rbac.SplitAccount(w.Username)
	switch mode {
	case "associated-node":
		_, _, byAccount := rbac.SplitAccount(i.user.Username)
		on := i.user.Extra[nodeNameExtra]
		return bare && isNode && byAccount && len(on) == 1 && on[0] == node
	case "arbitrary-node":
		return bare && isNode
	case "serviceaccount":
		return bare && isAccount
	}
	return !isNode && !isAccount
}

// nodeNamed returns the node of a kubelet's name.
func nodeNamed(username string) (string, bool) {
	name, ok := strings.CutPrefix(username, nodePrefix)
	return name, ok && len(validation.NameIsDNSSubdomain(name, false)) == 0
}

// check returns the user that the request is made as, or the error of the first right that is missing.
func (i impersonation) check(mode string) (authenticationv1.UserInfo, error) {
	verb, group, constrained := legacyMode, "", mode != legacyMode
	if constrained {
		verb, group = "impersonate:"+mode, authenticationv1.GroupName
		if err := i.mayRequest("impersonate-on:" + mode + ":"); err != nil {
			return authenticationv1.UserInfo{}, err
		}
	}
	user := i.wanted
	may := func(group, resource, sub, namespace, name string) error {
		return i.by.Authorize(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name,
		}})
	}
	resource, namespace, name := "users", "", user.Username
	if node, isNode := nodeNamed(name); isNode && constrained {
		resource, name, user.Groups = "nodes", node, []string{nodesGroup}
		if mode == "associated-node" {
			name = "*"
		}
	} else if in, account, isAccount := rbac.SplitAccount(name); isAccount {
		resource, namespace, name = "serviceaccounts", in, account
		if len(user.Groups) == 0 {
			user.Groups = []string{rbac.AccountsGroup, rbac.AccountsGroup + ":" + in}
		}
	}
	err := may(group, resource, "", namespace, name)
	if err == nil && user.UID != "" {
		err = may(authenticationv1.GroupName, "uids", "", "", user.UID)
	}
	if err == nil {
		err = i.mayGroups(constrained, verb, group, may)
	}
	if err == nil {
		err = i.mayExtra(constrained, verb, may)
	}
	if len(user.Extra) == 0 {
		user.Extra = nil
	}
	user.Groups = withImplied(user)
	return user, err
}

// mayRequest checks the right to make the request with a verb that begins with a prefix.
func (i impersonation) mayRequest(prefix string) error {
	spec := i.request.DeepCopy()
	if spec.ResourceAttributes != nil {
		spec.ResourceAttributes.Verb = prefix + spec.ResourceAttributes.Verb
	} else {
		spec.NonResourceAttributes.Verb = prefix + spec.NonResourceAttributes.Verb
	}
	return i.by.Authorize(*spec)
}

type mayFunc func(group, resource, sub, namespace, name string) error

func (i impersonation) mayGroups(constrained bool, verb, group string, may mayFunc) error {
	groups := i.wanted.Groups
	refuse := func(name, why string) error {
		return i.refusal(rbac.Attributes{Verb: verb, Group: group, Resource: "groups", Name: name}, why)
	}
	switch {
	case constrained && slices.Contains(groups, ""):
		return refuse("", "impersonating the empty string group is not allowed")
	case constrained && slices.Contains(groups, mastersGroup):
		return refuse(mastersGroup, "impersonating the system:masters group is not allowed")
	case constrained && len(groups) >= wildcardFrom && may(group, "groups", "", "", "*") == nil:
		return nil
	}
	for _, name := range groups {
		if err := may(group, "groups", "", "", name); err != nil {
			return err
		}
	}
	return nil
}

func (i impersonation) mayExtra(constrained bool, verb string, may mayFunc) error {
	keys, count := slices.Sorted(maps.Keys(i.wanted.Extra)), 0
	for _, k := range keys {
		count += len(i.wanted.Extra[k])
		if err := validateExtra(k, i.wanted.Extra[k]); constrained && err != nil {
			return i.refusal(rbac.Attributes{Verb: verb, Group: authenticationv1.GroupName, Resource: "userextras"}, err.Error())
		}
	}
	if constrained && max(count, len(keys)) >= wildcardFrom && may(authenticationv1.GroupName, "userextras", "*", "", "*") == nil {
		return nil
	}
	for _, k := range keys {
		for _, value := range i.wanted.Extra[k] {
			if err := may(authenticationv1.GroupName, "userextras", k, "", value); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusal returns an error that no right could avoid.
func (i impersonation) refusal(a rbac.Attributes, why string) error {
	a.User = &i.user
	return a.Forbidden(why)
}

func validateExtra(key string, values []string) error {
	errs := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key)
	switch {
	case key == "":
		return errors.New("impersonating the empty string key in extra is not allowed")
	case len(errs) > 0:
		return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", errs.ToAggregate())
	case key != strings.ToLower(key):
		return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
	case len(values) == 0:
		return errors.New("impersonating empty values in extra is not allowed")
	case slices.Contains(values, ""):
		return errors.New("impersonating the empty string value in extra is not allowed")
	}
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
