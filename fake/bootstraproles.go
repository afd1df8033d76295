package fake

import "github.com/volsim/volsim/internal/rbac"

// roleUIDs is the first number of the UIDs of the roles and bindings that a server starts with.
const roleUIDs = 1 << 33

// bootstrapRoles creates the roles and bindings that a server starts with, as bootstrap does.
//
// Differs: none is created or mended again if it is deleted or changed.
//
// Upstream: pkg/registry/rbac/rest PolicyData.EnsureRBACPolicy.
func (s *Server) bootstrapRoles() {
	n := uint64(roleUIDs)
	add := func(resource string, obj Object) {
		s.bootstrapObject(n, resource, s.table(resource).kind.shallow(obj))
		n++
	}
	all := rbac.Bootstrap()
	for _, r := range all.ClusterRoles {
		add("clusterroles", r)
	}
	for _, b := range all.ClusterRoleBindings {
		add("clusterrolebindings", b)
	}
	for _, r := range all.Roles {
		add("roles", r)
	}
	for _, b := range all.RoleBindings {
		add("rolebindings", b)
	}
}
