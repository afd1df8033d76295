package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// SuperuserGroup is the group whose members may do everything, whatever the roles say.
const SuperuserGroup = "system:masters"

// A Policy has the roles and bindings of one moment. It is safe for concurrent use.
type Policy struct {
	clusterRoles map[string]*rbacv1.ClusterRole
	roles        map[string]*rbacv1.Role // by namespace/name
	// users and groups have the grants of a user or group in the order of the bindings: those of the
	// cluster first.
	users, groups map[string][]*grant
}

// A grant is what a binding grants one subject.
type grant struct {
	binding   int    // its place in the order of the bindings
	namespace string // "": in all of them
	rules     []rbacv1.PolicyRule
	err       error  // of the reference to the role
	source    string // of the rules, for reasons
}

// Objects are the roles and bindings of a Policy, each sorted by namespace and name. They are read only.
type Objects struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// NewPolicy returns the policy of roles and bindings.
func NewPolicy(o Objects) *Policy {
	p := &Policy{
		clusterRoles: map[string]*rbacv1.ClusterRole{}, roles: map[string]*rbacv1.Role{},
		users: map[string][]*grant{}, groups: map[string][]*grant{},
	}
	for _, r := range o.ClusterRoles {
		p.clusterRoles[r.Name] = r
	}
	for _, r := range o.Roles {
		p.roles[r.Namespace+"/"+r.Name] = r
	}
	for i, b := range o.ClusterRoleBindings {
		p.bind(i, fmt.Sprintf("ClusterRoleBinding %q", b.Name), "", b.RoleRef, b.Subjects)
	}
	for i, b := range o.RoleBindings {
		p.bind(len(o.ClusterRoleBindings)+i, fmt.Sprintf("RoleBinding %q", b.Name+"/"+b.Namespace), b.Namespace, b.RoleRef, b.Subjects)
	}
	return p
}

// bind adds the grants of a binding.
func (p *Policy) bind(order int, binding, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	rules, err := p.RoleRules(ref, namespace)
	for _, s := range subjects {
		g := &grant{binding: order, namespace: namespace, rules: rules, err: err}
		switch s.Kind {
		case rbacv1.UserKind:
			p.users[s.Name] = append(p.users[s.Name], g)
		case rbacv1.GroupKind:
			p.groups[s.Name] = append(p.groups[s.Name], g)
		case rbacv1.ServiceAccountKind:
			in := s.Namespace
			if in == "" {
				in = namespace
			}
			if in == "" {
				continue
			}
			user := AccountName(in, s.Name)
			p.users[user] = append(p.users[user], g)
			s.Name += "/" + in
		default:
			continue
		}
		g.source = fmt.Sprintf("%s of %s %q to %s %q", binding, ref.Kind, ref.Name, s.Kind, s.Name)
	}
}

// RoleRules returns the rules of the role that a binding refers to. namespace is that of the binding.
// The error is that the role does not exist.
//
// Upstream: pkg/registry/rbac/validation GetRoleReferenceRules.
func (p *Policy) RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		if r, ok := p.roles[namespace+"/"+ref.Name]; ok {
			return r.Rules, nil
		}
		return nil, apierrors.NewNotFound(rbacv1.Resource("role"), ref.Name)
	case "ClusterRole":
		if r, ok := p.clusterRoles[ref.Name]; ok {
			return r.Rules, nil
		}
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), ref.Name)
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

// visit calls f with each grant that applies to a user in a namespace, until f returns false. The grants of
// the cluster come first.
func (p *Policy) visit(user *authenticationv1.UserInfo, namespace string, f func(*grant) bool) {
	for _, cluster := range []bool{true, false} {
		if !cluster && namespace == "" {
			return
		}
		for i := -1; i < len(user.Groups); i++ {
			grants := p.users[user.Username]
			if i >= 0 {
				grants = p.groups[user.Groups[i]]
			}
			for _, g := range grants {
				if cluster != (g.namespace == "") || !cluster && g.namespace != namespace {
					continue
				}
				if !f(g) {
					return
				}
			}
		}
	}
}

// RulesFor returns the rules that a user has in a namespace; with "" those that apply everywhere. The
// error is about bindings whose role does not exist. The other rules are returned with it.
//
// Upstream: pkg/registry/rbac/validation DefaultRuleResolver.RulesFor.
func (p *Policy) RulesFor(user *authenticationv1.UserInfo, namespace string) ([]rbacv1.PolicyRule, error) {
	grants := map[int]*grant{} // by binding: several of its subjects may apply
	p.visit(user, namespace, func(g *grant) bool {
		grants[g.binding] = g
		return true
	})
	var rules []rbacv1.PolicyRule
	var errs []error
	for _, binding := range slices.Sorted(maps.Keys(grants)) {
		rules = append(rules, grants[binding].rules...)
		if err := grants[binding].err; err != nil {
			errs = append(errs, err)
		}
	}
	return rules, utilerrors.NewAggregate(errs)
}

// Authorize reports whether a user may make a request, and why. The reason of a refusal is empty unless
// roles are missing.
//
// Upstream: plugin/pkg/auth/authorizer/rbac RBACAuthorizer.Authorize; the group of superusers:
// k8s.io/apiserver/pkg/authorization/authorizerfactory NewPrivilegedGroups.
func (p *Policy) Authorize(a Attributes) (allowed bool, reason string) {
	if IsSuperuser(a.User) {
		return true, ""
	}
	var errs []error
	p.visit(a.User, a.Namespace, func(g *grant) bool {
		if g.err != nil {
			errs = append(errs, g.err)
		}
		if RulesAllow(g.rules, a) {
			allowed, reason = true, "RBAC: allowed by "+g.source
		}
		return !allowed
	})
	if !allowed && len(errs) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
	}
	return allowed, reason
}

// IsSuperuser reports whether a user is in SuperuserGroup.
func IsSuperuser(user *authenticationv1.UserInfo) bool {
	return slices.Contains(user.Groups, SuperuserGroup)
}

// RulesAllow reports whether one of the rules allows a request.
func RulesAllow(rules []rbacv1.PolicyRule, a Attributes) bool {
	for i := range rules {
		if allows(&rules[i], &a) {
			return true
		}
	}
	return false
}

// allows reports whether a rule allows a request.
//
// Upstream: plugin/pkg/auth/authorizer/rbac RuleAllows; pkg/apis/rbac/v1 evaluation_helpers.go.
func allows(rule *rbacv1.PolicyRule, a *Attributes) bool {
	if !has(rule.Verbs, a.Verb) {
		return false
	}
	if a.Path != "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			return url == "*" || url == a.Path ||
				strings.HasSuffix(url, "*") && strings.HasPrefix(a.Path, strings.TrimRight(url, "*"))
		})
	}
	return has(rule.APIGroups, a.Group) && allowsResource(rule, a) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name))
}

// allowsResource reports whether a rule is for a request's resource, or its subresource of any resource.
func allowsResource(rule *rbacv1.PolicyRule, a *Attributes) bool {
	for _, r := range rule.Resources {
		switch {
		case r == rbacv1.ResourceAll, a.Subresource == "" && r == a.Resource:
			return true
		case a.Subresource == "":
			continue
		}
		resource, subresource, ok := strings.Cut(r, "/")
		if ok && subresource == a.Subresource && (resource == a.Resource || resource == "*") {
			return true
		}
	}
	return false
}

func has(all []string, one string) bool {
	return slices.Contains(all, "*") || slices.Contains(all, one)
}
