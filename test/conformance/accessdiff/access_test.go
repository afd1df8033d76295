package accessdiff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A world has the same roles and bindings for both.
type world struct {
	clusterRoles        []*rbacv1.ClusterRole
	roles               []*rbacv1.Role
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
	roleBindings        []*rbacv1.RoleBinding
}

var (
	names      = []string{"a", "b", "c"}
	namespaces = []string{"default", "kube-system"}
	users      = []string{"ann", "bob", "system:serviceaccount:default:sa", "system:serviceaccount:kube-system:sa"}
	groups     = []string{"dev", "system:authenticated", "system:serviceaccounts"}
	verbs      = []string{"get", "list", "create", "delete", "*"}
	apiGroups  = []string{"", "apps", "storage.k8s.io", "*"}
	resources  = []string{"pods", "pods/log", "*/log", "secrets", "nodes", "*"}
	paths      = []string{"/healthz", "/healthz/*", "/metrics", "*"}
)

func some(t *rapid.T, of []string, label string, least int) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(of), least, 3, rapid.ID).Draw(t, label)
}

func one(t *rapid.T, of []string, label string) string { return rapid.SampledFrom(of).Draw(t, label) }

func drawRules(t *rapid.T, namespaced bool) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, rapid.IntRange(0, 3).Draw(t, "rules"))
	for i := range rules {
		if !namespaced && rapid.IntRange(0, 3).Draw(t, "path") == 0 {
			rules[i] = rbacv1.PolicyRule{Verbs: some(t, verbs, "verbs", 1), NonResourceURLs: some(t, paths, "paths", 1)}
			continue
		}
		rules[i] = rbacv1.PolicyRule{
			Verbs: some(t, verbs, "verbs", 1), APIGroups: some(t, apiGroups, "groups", 1), Resources: some(t, resources, "resources", 1),
		}
		if rapid.IntRange(0, 2).Draw(t, "named") == 0 {
			rules[i].ResourceNames = some(t, names, "names", 1)
		}
	}
	return rules
}

func drawSubjects(t *rapid.T, namespaced bool) []rbacv1.Subject {
	subjects := make([]rbacv1.Subject, rapid.IntRange(0, 2).Draw(t, "subjects"))
	for i := range subjects {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			subjects[i] = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: one(t, users, "user")}
		case 1:
			subjects[i] = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: one(t, groups, "group")}
		default:
			subjects[i] = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "sa", Namespace: one(t, namespaces, "namespace")}
		}
	}
	return subjects
}

func drawWorld(t *rapid.T) *world {
	w := &world{}
	for _, name := range some(t, names, "cluster roles", 0) {
		w.clusterRoles = append(w.clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: drawRules(t, false)})
	}
	for _, name := range some(t, names, "roles", 0) {
		w.roles = append(w.roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: one(t, namespaces, "namespace")}, Rules: drawRules(t, true)})
	}
	for _, name := range some(t, names, "cluster role bindings", 0) {
		w.clusterRoleBindings = append(w.clusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: drawSubjects(t, false),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: one(t, names, "role")},
		})
	}
	for _, name := range some(t, names, "role bindings", 0) {
		w.roleBindings = append(w.roleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: one(t, namespaces, "namespace")}, Subjects: drawSubjects(t, true),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: one(t, []string{"ClusterRole", "Role"}, "kind"), Name: one(t, names, "role")},
		})
	}
	return w
}

func (w *world) objects() []runtime.Object {
	var all []runtime.Object
	for _, o := range w.clusterRoles {
		all = append(all, o)
	}
	for _, o := range w.roles {
		all = append(all, o)
	}
	for _, o := range w.clusterRoleBindings {
		all = append(all, o)
	}
	for _, o := range w.roleBindings {
		all = append(all, o)
	}
	return all
}

// The world is what upstream's rules are resolved from. Its errors are those of listers.

func (w *world) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	i := slices.IndexFunc(w.roles, func(r *rbacv1.Role) bool { return r.Namespace == namespace && r.Name == name })
	if i < 0 {
		return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
	}
	return w.roles[i], nil
}

func (w *world) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	i := slices.IndexFunc(w.clusterRoles, func(r *rbacv1.ClusterRole) bool { return r.Name == name })
	if i < 0 {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), name)
	}
	return w.clusterRoles[i], nil
}

func (w *world) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	var out []*rbacv1.RoleBinding
	for _, b := range w.roleBindings {
		if b.Namespace == namespace {
			out = append(out, b)
		}
	}
	return out, nil
}

func (w *world) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return w.clusterRoleBindings, nil
}

// TestSameDecisions compares reviews, lists of rules and creations of roles in drawn worlds.
func TestSameDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, RBAC: true, SkipBootstrap: true})
		admin := server.Client(sim.DirectCaller())
		// Upstream's roles from the start are not part of the drawn world.
		for _, resource := range []string{"clusterrolebindings", "clusterroles", "rolebindings", "roles"} {
			remove(t, admin, resource)
		}
		if err := server.Add(w.objects()...); err != nil {
			t.Fatal(err)
		}
		upstream := rbac.New(w, w, w, w)
		for range 8 {
			compareReview(t, admin, upstream)
		}
		compareCreation(t, admin, w)
	})
}

func remove(t *rapid.T, admin *fake.Clientset, resource string) {
	client, _ := admin.Resource(rbacv1.SchemeGroupVersion.WithResource(resource), "")
	all, err := client.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range all.Objects {
		in, _ := admin.Resource(rbacv1.SchemeGroupVersion.WithResource(resource), obj.GetNamespace())
		if _, err := in.Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func drawUser(t *rapid.T) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: one(t, users, "user"), Groups: some(t, groups, "groups", 0)}
}

func infoOf(u authenticationv1.UserInfo) user.Info {
	return &user.DefaultInfo{Name: u.Username, Groups: u.Groups}
}

func compareReview(t *rapid.T, admin *fake.Clientset, upstream *rbac.RBACAuthorizer) {
	who := drawUser(t)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: who.Username, Groups: who.Groups}}
	attributes := authorizer.AttributesRecord{User: infoOf(who), Verb: one(t, verbs[:4], "verb")}
	if rapid.IntRange(0, 4).Draw(t, "path") == 0 {
		attributes.Path = one(t, []string{"/healthz", "/healthz/ping", "/metrics", "/"}, "path")
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: attributes.Verb, Path: attributes.Path}
	} else {
		attributes.ResourceRequest = true
		attributes.APIGroup, attributes.Resource = one(t, apiGroups[:3], "group"), one(t, []string{"pods", "secrets", "nodes"}, "resource")
		attributes.Subresource, attributes.Name = one(t, []string{"", "log", "status"}, "subresource"), one(t, append([]string{""}, names...), "name")
		attributes.Namespace = one(t, append([]string{""}, namespaces...), "namespace")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: attributes.Verb, Group: attributes.APIGroup, Resource: attributes.Resource, Subresource: attributes.Subresource,
			Name: attributes.Name, Namespace: attributes.Namespace,
		}
	}
	answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(context.Background(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	decision, reason, err := upstream.Authorize(context.Background(), attributes)
	if err != nil {
		t.Fatal(err)
	}
	allowed := decision == authorizer.DecisionAllow
	if allowed != answer.Status.Allowed || !allowed && !sameReason(reason, answer.Status.Reason) {
		t.Fatalf("%+v by %+v:\nupstream %v %q\nours     %v %q", attributes, who, allowed, reason, answer.Status.Allowed, answer.Status.Reason)
	}
	if allowed && !strings.HasPrefix(answer.Status.Reason, "RBAC: allowed by ") {
		t.Fatalf("the reason is %q, upstream's %q", answer.Status.Reason, reason)
	}
}

// sameReason compares reasons whose errors may have another order.
func sameReason(a, b string) bool {
	split := func(text string) []string {
		parts := strings.Split(strings.Trim(strings.TrimPrefix(text, "RBAC: "), "[]"), ", ")
		slices.Sort(parts)
		return parts
	}
	return slices.Equal(split(a), split(b))
}

// compareCreation compares the creation of a role by a user.
func compareCreation(t *rapid.T, admin *fake.Clientset, w *world) {
	who := drawUser(t)
	namespace := one(t, namespaces, "namespace")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: namespace}, Rules: drawRules(t, true)}
	// The user may create roles, and has no other right by that.
	may := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "may"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "may"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "may"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who.Username}},
	}
	w.clusterRoles, w.clusterRoleBindings = append(w.clusterRoles, may), append(w.clusterRoleBindings, binding)
	if err := admin.Server().Add(may, binding); err != nil {
		t.Fatal(err)
	}
	_, err := admin.AsUser(who).RbacV1().Roles(namespace).Create(context.Background(), role, metav1.CreateOptions{})
	ctx := genericapirequest.WithNamespace(genericapirequest.WithUser(context.Background(), infoOf(who)), namespace)
	want := validation.ConfirmNoEscalation(ctx, validation.NewDefaultRuleResolver(w, w, w, w), role.Rules)
	if escalates(ctx, w, who, namespace) {
		want = nil
	}
	if (err == nil) != (want == nil) {
		t.Fatalf("%+v creates %+v: upstream %v, ours %v", who, role, want, err)
	}
	var refused *apierrors.StatusError
	if want == nil || !errors.As(err, &refused) {
		return
	}
	text := fmt.Sprintf("roles.rbac.authorization.k8s.io %q is forbidden: %v", "new", want)
	if !strings.Contains(text, "resolution errors") && refused.Error() != text {
		t.Fatalf("upstream %q\nours     %q", text, refused.Error())
	}
}

// escalates reports whether a user has the verb escalate.
func escalates(ctx context.Context, w *world, who authenticationv1.UserInfo, namespace string) bool {
	decision, _, err := rbac.New(w, w, w, w).Authorize(ctx, authorizer.AttributesRecord{
		User: infoOf(who), Verb: "escalate", APIGroup: rbacv1.GroupName, Resource: "roles", Namespace: namespace, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
