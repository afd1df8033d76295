package fake_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// roleWrites create and update a role that allows to get pods, in a namespace and in all.
var roleWrites = map[string]func(t *testing.T, c *fake.Clientset, rules []rbacv1.PolicyRule) error{
	"create a role": func(t *testing.T, c *fake.Clientset, rules []rbacv1.PolicyRule) error {
		_, err := c.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: rules}, metav1.CreateOptions{})
		return err
	},
	"update a role": func(t *testing.T, c *fake.Clientset, rules []rbacv1.PolicyRule) error {
		_, err := c.RbacV1().Roles("default").Update(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Rules: rules}, metav1.UpdateOptions{})
		return err
	},
	"create a cluster role": func(t *testing.T, c *fake.Clientset, rules []rbacv1.PolicyRule) error {
		_, err := c.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: rules}, metav1.CreateOptions{})
		return err
	},
	"update a cluster role": func(t *testing.T, c *fake.Clientset, rules []rbacv1.PolicyRule) error {
		_, err := c.RbacV1().ClusterRoles().Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Rules: rules}, metav1.UpdateOptions{})
		return err
	},
}

// TestRoleIsGranted has the rows of upstream's TestEscalation of the storage of roles: users that may write roles, and
// what else they hold.
func TestRoleIsGranted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		user    authenticationv1.UserInfo
		holds   *rbacv1.PolicyRule
		allowed bool
	}{
		{"superuser", authenticationv1.UserInfo{Username: "superuser", Groups: []string{"system:masters"}}, nil, true},
		{"holds nothing", authenticationv1.UserInfo{Username: "bob"}, nil, false},
		{"may escalate", authenticationv1.UserInfo{Username: "steve"}, &rbacv1.PolicyRule{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "clusterroles"}, Verbs: []string{"escalate"},
		}, true},
		{"holds the rule", authenticationv1.UserInfo{Username: "alice"}, &rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, true},
		{"holds another", authenticationv1.UserInfo{Username: "eve"}, &rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}, false},
	} {
		for what, write := range roleWrites {
			t.Run(tt.name+", "+what, func(t *testing.T) {
				w := newAccessWorld(t)
				w.grant(tt.user.Username, "", rbacv1.PolicyRule{
					APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "clusterroles"}, Verbs: []string{"create", "update"},
				})
				if tt.holds != nil {
					w.grant(tt.user.Username, "", *tt.holds)
				}
				meta := metav1.ObjectMeta{Name: "old"}
				testcheck.Must(w.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta}, metav1.CreateOptions{}))
				testcheck.Must(w.admin.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta}, metav1.CreateOptions{}))
				err := write(t, w.admin.AsUser(tt.user), []rbacv1.PolicyRule{rule("pods", "get")})
				if tt.allowed && err != nil || !tt.allowed && !apierrors.IsForbidden(err) {
					t.Errorf("allowed: want %v, error %v", tt.allowed, err)
				}
			})
		}
	}
}

// TestOwnershipIsNoGrant has the rows of upstream's TestIsOnlyMutatingGCFields: the garbage collector may update roles whose
// rules it does not hold, if it changes only what is its own.
func TestOwnershipIsNoGrant(t *testing.T) {
	owner := func(r *rbacv1.Role) {
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "u"}}
	}
	annotation := func(r *rbacv1.Role) { r.Annotations = map[string]string{"a": "b"} }
	rules := func(r *rbacv1.Role) { r.Rules = append(r.Rules, rule("pods", "list")) }
	finalizer := func(r *rbacv1.Role) { r.Finalizers = []string{"example.com/f"} }
	managed := func(r *rbacv1.Role) {
		r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "rbac.authorization.k8s.io/v1"}}
	}
	for _, tt := range []struct {
		name    string
		changes []func(*rbacv1.Role)
		allowed bool
	}{
		{"nothing", nil, true},
		{"managed fields", []func(*rbacv1.Role){managed}, true},
		{"annotations", []func(*rbacv1.Role){annotation}, false},
		{"rules", []func(*rbacv1.Role){rules}, false},
		{"owners", []func(*rbacv1.Role){owner}, true},
		{"owners and finalizers", []func(*rbacv1.Role){owner, finalizer}, true},
		{"owners and annotations", []func(*rbacv1.Role){owner, annotation}, false},
		{"owners and rules", []func(*rbacv1.Role){owner, rules}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAccessWorld(t)
			w.grant("gc", "", rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"update"}})
			role := testcheck.Must(w.admin.RbacV1().Roles("default").Create(t.Context(),
				&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule("pods", "get")}}, metav1.CreateOptions{}))
			for _, change := range tt.changes {
				change(role)
			}
			_, err := w.as("gc").RbacV1().Roles("default").Update(t.Context(), role, metav1.UpdateOptions{})
			if tt.allowed && err != nil || !tt.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("allowed: want %v, error %v", tt.allowed, err)
			}
		})
	}
}
