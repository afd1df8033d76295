package fake

import (
	"slices"
	"strings"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/volsim/volsim/internal/rbac"
	"github.com/volsim/volsim/sim"
)

// access decides what users may do. The policy is made again when a role or a binding has changed.
type access struct {
	tables [4]*table // cluster roles, their bindings, roles, their bindings
	made   atomic.Pointer[madePolicy]
}

// A madePolicy is the policy of the tables' logs up to a position.
type madePolicy struct {
	*rbac.Policy
	generation int64
}

func (s *Server) newAccess() *access {
	return &access{tables: [4]*table{
		s.table("clusterroles"), s.table("clusterrolebindings"), s.table("roles"), s.table("rolebindings"),
	}}
}

// generation is that of the policy: it grows with each change of a role or binding.
func (a *access) generation() int64 {
	var sum int64
	for _, t := range a.tables {
		sum += t.log.end.Load()
	}
	return sum
}

// policy returns the policy of the present roles and bindings.
func (s *Server) policy() *rbac.Policy {
	a := s.access
	generation := a.generation()
	if p := a.made.Load(); p != nil && p.generation == generation {
		return p.Policy
	}
	p := &madePolicy{generation: generation, Policy: rbac.NewPolicy(rbac.Objects{
		ClusterRoles: listed[*rbacv1.ClusterRole](s, a.tables[0]), ClusterRoleBindings: listed[*rbacv1.ClusterRoleBinding](s, a.tables[1]),
		Roles: listed[*rbacv1.Role](s, a.tables[2]), RoleBindings: listed[*rbacv1.RoleBinding](s, a.tables[3]),
	})}
	a.made.Store(p)
	return p.Policy
}

// listed returns the stored objects of a table.
func listed[T Object](s *Server, t *table) []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]T, 0, t.objects.Len())
	t.objects.Scan(func(_ string, obj Object) bool {
		out = append(out, obj.(T))
		return true
	})
	return out
}

// decide reports whether a request is allowed, and why. Nodes are asked about first.
//
// Upstream: the authorization mode Node,RBAC; k8s.io/apiserver/pkg/authorization/union.
func (s *Server) decide(a rbac.Attributes) (allowed bool, reason string) {
	if rbac.IsSuperuser(a.User) {
		return true, ""
	}
	reasons := make([]string, 0, 2)
	if node, isNode := nodeOf(a.User); isNode {
		allowed, why := s.nodeMay(node, a)
		if allowed {
			return true, ""
		}
		reasons = append(reasons, why)
	}
	allowed, why := s.policy().Authorize(a)
	if allowed {
		return true, why
	}
	if why != "" {
		reasons = append(reasons, why)
	}
	return false, strings.Join(reasons, "\n")
}

// allowed returns the error of a request that is refused, or nil.
func (s *Server) allowed(a rbac.Attributes) error {
	if ok, reason := s.decide(a); !ok {
		return a.Forbidden(reason)
	}
	return nil
}

// Authorize returns the error Forbidden if the client's user may not make a request, and nil if it may, or
// if the server does not authorize (Config.RBAC). The client's own requests are checked in any case.
func (c *Clientset) Authorize(request authorizationv1.SelfSubjectAccessReviewSpec) error {
	if c.server.access == nil || c.user == nil {
		return nil
	}
	return c.server.allowed(attributesOf(c.user, request.ResourceAttributes, request.NonResourceAttributes))
}

// Decide reports whether the client's user may make a request, and why, as Authorize does. The reason of a
// refusal may be "".
func (c *Clientset) Decide(request authorizationv1.SelfSubjectAccessReviewSpec) (allowed bool, reason string) {
	if c.server.access == nil || c.user == nil {
		return true, ""
	}
	return c.server.decide(attributesOf(c.user, request.ResourceAttributes, request.NonResourceAttributes))
}

// attributesOf returns the attributes of a request in a review, one of resource and path.
func attributesOf(user *authenticationv1.UserInfo, resource *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes,
) rbac.Attributes {
	if resource == nil {
		return rbac.Attributes{User: user, Verb: path.Verb, Path: path.Path}
	}
	return rbac.Attributes{
		User: user, Verb: resource.Verb, Group: resource.Group, Resource: resource.Resource,
		Subresource: resource.Subresource, Namespace: resource.Namespace, Name: resource.Name,
		NodeName: selectedNode(resource.FieldSelector),
	}
}

// selectedNode returns the node by whose name the objects in a review are selected; "": they are not.
//
// Upstream: pkg/registry/authorization/util ResourceAttributesFrom.
func selectedNode(s *authorizationv1.FieldSelectorAttributes) string {
	const field = "spec.nodeName"
	if s == nil {
		return ""
	}
	for _, r := range s.Requirements {
		if r.Key == field && r.Operator == metav1.FieldSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	selector, err := fields.ParseSelector(s.RawSelector)
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch(field)
	return name
}

// authorize returns an error if the client's user may not make a request for the resource.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/request RequestInfoFactory, filters WithAuthorization.
func (r ResourceClient) authorize(verb, name string, sub ...string) error {
	if r.c.server.access == nil || r.c.user == nil {
		return nil
	}
	return r.c.server.allowed(r.attributes(verb, name, sub...))
}

func (r ResourceClient) attributes(verb, name string, sub ...string) rbac.Attributes {
	of := r.kind
	if of.base != nil && of.base.scale == of {
		of, sub = of.base, []string{"scale"}
	}
	a := rbac.Attributes{
		User: r.c.user, Verb: verb, Group: of.gvk.Group, Resource: of.resource, Subresource: strings.Join(sub, "/"),
		Namespace: r.namespace, Name: name,
	}
	if a.Group == "" && a.Resource == "namespaces" {
		a.Namespace = name
	}
	return a
}

// authorizeSeveral is authorize for a request about several objects. A selector for one name is the name.
func (r ResourceClient) authorizeSeveral(verb, fieldSelector string) error {
	if r.c.server.access == nil || r.c.user == nil {
		return nil
	}
	return r.c.server.allowed(r.attributesOfSeveral(verb, fieldSelector))
}

func (r ResourceClient) attributesOfSeveral(verb, fieldSelector string) rbac.Attributes {
	a := r.attributes(verb, "")
	if s, err := fields.ParseSelector(fieldSelector); err == nil {
		a.Name, _ = s.RequiresExactMatch("metadata.name")
		a.NodeName, _ = s.RequiresExactMatch("spec.nodeName")
	}
	return a
}

// DecideSeveral reports whether the client's user may list, watch or delete the selected objects, and why.
// List, Watch and DeleteCollection check it themselves.
func (r ResourceClient) DecideSeveral(verb, fieldSelector string) (allowed bool, reason string) {
	if r.c.server.access == nil || r.c.user == nil {
		return true, ""
	}
	return r.c.server.decide(r.attributesOfSeveral(verb, fieldSelector))
}

// SetUser sets the user of a process's informers. With Config.RBAC a cache that the user may not list and
// watch stays empty, as that of a real client does: it never syncs, and the process's workers do not start,
// until a role allows it. Without it, the user is system:admin. Call it before the first informer is made.
//
// Differs: a cache is of all namespaces, and a permission in one of them suffices: programs that
// have one limit their caches to it. A cache that is full keeps getting events if the permission is removed. The
// metadata watcher is not checked.
func (s *Server) SetUser(c *sim.Process, user authenticationv1.UserInfo) {
	f := s.Informers(c).(*factory)
	f.user = &user
}

// mayFill returns the error for which an informer cannot list or watch.
func (v *informer) mayFill() error {
	if v.server.access == nil || v.user == nil {
		return nil
	}
	err := v.mayList("")
	if err == nil || !v.table.kind.namespaced {
		return err
	}
	for _, namespace := range v.server.List("namespaces") {
		if v.mayList(namespace.GetName()) == nil {
			return nil
		}
	}
	return err
}

// mayList returns the error for which an informer cannot list or watch in a namespace; "": in all.
func (v *informer) mayList(namespace string) error {
	of := v.table.kind
	for _, verb := range []string{"list", "watch"} {
		a := rbac.Attributes{User: v.user, Verb: verb, Group: of.gvk.Group, Resource: of.resource, Namespace: namespace}
		if err := v.server.allowed(a); err != nil {
			return err
		}
	}
	return nil
}

// wakeRefused wakes the processes whose caches wait for a permission.
func (s *Server) wakeRefused() {
	var refused []*sim.Process
	s.hooks.RLock()
	for process, f := range s.factories {
		if f.user != nil {
			refused = append(refused, process)
		}
	}
	s.hooks.RUnlock()
	slices.SortFunc(refused, func(a, b *sim.Process) int { return strings.Compare(a.Name(), b.Name()) })
	for _, process := range refused {
		process.Wake()
	}
}
