package table

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var leaseColumns = []metav1.TableColumnDefinition{
	name, text("Holder", doc(coordinationv1.LeaseSpec{}, "holderIdentity")), age,
}

func leaseCells(l *coordinationv1.Lease, now clock) []any {
	return []any{l.Name, ptr.Deref(l.Spec.HolderIdentity, ""), now.since(l.CreationTimestamp)}
}

// The descriptions of bindings' columns are from v1beta1, as upstream.
var (
	bindingColumns = []metav1.TableColumnDefinition{
		name, text("Role", doc(rbacv1beta1.RoleBinding{}, "roleRef")), age,
		wide(text("Users", "Users in the roleBinding")),
		wide(text("Groups", "Groups in the roleBinding")),
		wide(text("ServiceAccounts", "ServiceAccounts in the roleBinding")),
	}
	clusterBindingColumns = []metav1.TableColumnDefinition{
		name, text("Role", doc(rbacv1beta1.ClusterRoleBinding{}, "roleRef")), age,
		wide(text("Users", "Users in the clusterRoleBinding")),
		wide(text("Groups", "Groups in the clusterRoleBinding")),
		wide(text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding")),
	}
)

func bindingCells(b *rbacv1.RoleBinding, now clock) []any {
	return append([]any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, now.since(b.CreationTimestamp)},
		subjects(b.Subjects)...)
}

func clusterBindingCells(b *rbacv1.ClusterRoleBinding, now clock) []any {
	return append([]any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, now.since(b.CreationTimestamp)},
		subjects(b.Subjects)...)
}

// subjects lists users, groups and service accounts.
func subjects(all []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range all {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}
}

var budgetColumns = []metav1.TableColumnDefinition{
	name,
	text("Min Available", "The minimum number of pods that must be available."),
	text("Max Unavailable", "The maximum number of pods that may be unavailable."),
	number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
	age,
}

func budgetCells(b *policyv1.PodDisruptionBudget, now clock) []any {
	limit := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{
		b.Name, limit(b.Spec.MinAvailable), limit(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed),
		now.since(b.CreationTimestamp),
	}
}

var priorityColumns = []metav1.TableColumnDefinition{
	name,
	number("Value", doc(schedulingv1.PriorityClass{}, "value")),
	yesNo("Global-Default", doc(schedulingv1.PriorityClass{}, "globalDefault")),
	age,
	text("PreemptionPolicy", doc(schedulingv1.PriorityClass{}, "preemptionPolicy")),
}

func priorityCells(p *schedulingv1.PriorityClass, now clock) []any {
	return []any{
		p.Name, int64(p.Value), p.GlobalDefault, now.since(p.CreationTimestamp),
		string(ptr.Deref(p.PreemptionPolicy, "")),
	}
}

func deviceClassCells(c *resourcev1.DeviceClass, now clock) []any {
	return []any{c.Name, now.since(c.CreationTimestamp)}
}

var resourceClaimColumns = []metav1.TableColumnDefinition{
	name, text("State", "A summary of the current state (allocated, pending, reserved, etc.)."), age,
}

func resourceClaimCells(c *resourcev1.ResourceClaim, now clock) []any {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return []any{c.Name, strings.Join(states, ","), now.since(c.CreationTimestamp)}
}

var sliceColumns = []metav1.TableColumnDefinition{
	name,
	text("Node", doc(resourcev1.ResourceSliceSpec{}, "nodeName")),
	text("Driver", doc(resourcev1.ResourceSliceSpec{}, "driver")),
	text("Pool", doc(resourcev1.ResourcePool{}, "name")),
	age,
}

func sliceCells(s *resourcev1.ResourceSlice, now clock) []any {
	return []any{
		s.Name, ptr.Deref(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, now.since(s.CreationTimestamp),
	}
}
