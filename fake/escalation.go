package fake

import (
	"errors"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/internal/rbac"
)

// checkEscalation returns an error if a user would grant more than the user holds, by a role or a binding
// that is created (old is nil) or changed, or would let an admission policy read what the user may not read.
//
// Upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased.
func (s writer) checkEscalation(k *kind, obj, old Object) error {
	if s.access == nil || s.user == nil || rbac.IsSuperuser(s.user) {
		return nil
	}
	switch k.gvk.Group {
	case admissionv1.GroupName:
		return s.checkParams(k, obj, old)
	case rbacv1.GroupName:
	default:
		return nil
	}
	if old != nil && changesOnlyOwnership(k, obj, old) {
		return nil
	}
	var err error
	switch o := obj.(type) {
	case *rbacv1.Role:
		err = s.mayGrant(k, o, o.Rules, old)
	case *rbacv1.ClusterRole:
		if err = s.mayGrant(k, o, o.Rules, old); err != nil || s.mayEscalate(k, o, old) {
			break
		}
		was, _ := old.(*rbacv1.ClusterRole)
		if aggregates(o) || aggregates(was) {
			if s.policy().Escalation(s.user, "", rbac.Everything) != nil {
				err = errors.New("must have cluster-admin privileges to use the aggregationRule")
			}
		}
	case *rbacv1.RoleBinding:
		return s.mayBind(k, o, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return s.mayBind(k, o, o.RoleRef)
	}
	if err != nil {
		return apierrors.NewForbidden(k.groupResource(), obj.GetName(), err)
	}
	return nil
}

// mayGrant returns an error unless the user holds the rules of a role, or may escalate it.
func (s writer) mayGrant(k *kind, role Object, rules []rbacv1.PolicyRule, old Object) error {
	if s.mayEscalate(k, role, old) {
		return nil
	}
	return s.policy().Escalation(s.user, role.GetNamespace(), rules)
}

// mayEscalate reports whether the user has the verb escalate for a role.
func (s writer) mayEscalate(k *kind, role, old Object) bool {
	a := rbac.Attributes{User: s.user, Verb: "escalate", Group: k.gvk.Group, Resource: k.resource, Namespace: role.GetNamespace()}
	if old != nil { // the name is in the URL
		a.Name = role.GetName()
	}
	ok, _ := s.decide(a)
	return ok
}

// mayBind returns an error unless the user has the verb bind for a role, or holds its rules.
func (s writer) mayBind(k *kind, binding Object, ref rbacv1.RoleRef) error {
	a := rbac.Attributes{User: s.user, Verb: "bind", Group: ref.APIGroup, Namespace: binding.GetNamespace(), Name: ref.Name}
	switch ref.Kind {
	case "ClusterRole":
		a.Resource = "clusterroles"
	case "Role":
		a.Resource = "roles"
	}
	if a.Resource != "" {
		if ok, _ := s.decide(a); ok {
			return nil
		}
	}
	rules, err := s.policy().RoleRules(ref, binding.GetNamespace())
	if err != nil {
		return err
	}
	if err := s.policy().Escalation(s.user, binding.GetNamespace(), rules); err != nil {
		return apierrors.NewForbidden(k.groupResource(), binding.GetName(), err)
	}
	return nil
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

// changesOnlyOwnership reports whether an update changes only what the garbage collector changes.
//
// Upstream: pkg/registry/rbac IsOnlyMutatingGCFields.
func changesOnlyOwnership(k *kind, obj, old Object) bool {
	changed := k.copy(obj)
	changed.SetOwnerReferences(old.GetOwnerReferences())
	changed.SetFinalizers(old.GetFinalizers())
	changed.SetManagedFields(old.GetManagedFields())
	return equality.Semantic.DeepEqual(changed, old)
}
