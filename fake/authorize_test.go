package fake_test

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// An accessWorld is a server with RBAC, with a clock of its own.
type accessWorld struct {
	t      *testing.T
	now    time.Time
	server *fake.Server
	admin  *fake.Clientset
}

func newAccessWorld(t *testing.T) *accessWorld {
	w := &accessWorld{t: t, now: sim.Epoch}
	w.server = fake.NewServer(fake.Config{Now: func() time.Time { return w.now }, RBAC: true, TokenKey: []byte("secret")})
	w.admin = w.server.Client(direct)
	return w
}

// as returns the client of a user.
func (w *accessWorld) as(user string, groups ...string) *fake.Clientset {
	return w.admin.AsUser(authenticationv1.UserInfo{Username: user, Groups: append(groups, "system:authenticated")})
}

// grant binds a new cluster role with one rule to a user, in a namespace or, with "", in all.
func (w *accessWorld) grant(user, namespace string, rule rbacv1.PolicyRule) {
	w.t.Helper()
	name := strings.NewReplacer(":", "-").Replace(user + "-" + strings.Join(rule.Verbs, "-") + "-" + strings.Join(rule.Resources, "-"))
	name = strings.ReplaceAll(name, "/", "-")
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	_, err := w.admin.RbacV1().ClusterRoles().Create(w.t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
	if namespace == "" {
		_, err = w.admin.RbacV1().ClusterRoleBindings().Create(w.t.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = w.admin.RbacV1().RoleBindings(namespace).Create(w.t.Context(),
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	testcheck.NoError(w.t, err)
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// wantError compares the text of an error; "" is none.
func wantError(t *testing.T, what, want string, err error) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	testcheck.Equal(t, what, want, got)
}

// TestEachVerbIsAuthorized makes each request as a user without any role, and with the role for just that.
func TestEachVerbIsAuthorized(t *testing.T) {
	const in = ` in the namespace "default"`
	pod := func() *corev1.Pod {
		p := newPod("p")
		p.Namespace = "default"
		return p
	}
	for _, tt := range []struct {
		verb, resource string
		want           string // refusal, after the user
		request        func(ctx context.Context, c *fake.Clientset) error
	}{
		{"get", "pods", `pods "p" is forbidden: User "ann" cannot get resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
			return err
		}},
		{"list", "pods", `pods is forbidden: User "ann" cannot list resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err
		}},
		{"list", "pods", `pods "p" is forbidden: User "ann" cannot list resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=p"})
			return err
		}},
		{"watch", "pods", `pods is forbidden: User "ann" cannot watch resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			w, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
			if err == nil {
				w.Stop()
			}
			return err
		}},
		{"create", "pods", `pods is forbidden: User "ann" cannot create resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			other := pod()
			other.Name = "other"
			_, err := c.CoreV1().Pods("default").Create(ctx, other, metav1.CreateOptions{})
			return err
		}},
		{"update", "pods", `pods "p" is forbidden: User "ann" cannot update resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Pods("default").Update(ctx, pod(), metav1.UpdateOptions{})
			return err
		}},
		{"update", "pods/status", `pods "p" is forbidden: User "ann" cannot update resource "pods/status" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Pods("default").UpdateStatus(ctx, pod(), metav1.UpdateOptions{})
			return err
		}},
		{"patch", "pods", `pods "p" is forbidden: User "ann" cannot patch resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Pods("default").Patch(ctx, "p", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		}},
		{"create", "pods/eviction", `pods "p" is forbidden: User "ann" cannot create resource "pods/eviction" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			return c.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
		}},
		{"delete", "pods", `pods "p" is forbidden: User "ann" cannot delete resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			return c.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{})
		}},
		{"deletecollection", "pods", `pods is forbidden: User "ann" cannot deletecollection resource "pods" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			return c.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}},
		{"get", "namespaces", `namespaces "default" is forbidden: User "ann" cannot get resource "namespaces" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			return err
		}},
		{"get", "nodes", `nodes "n" is forbidden: User "ann" cannot get resource "nodes" in API group "" at the cluster scope`, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
			return err
		}},
		{"create", "serviceaccounts/token", `serviceaccounts "default" is forbidden: User "ann" cannot create resource "serviceaccounts/token" in API group ""` + in, func(ctx context.Context, c *fake.Clientset) error {
			_, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		}},
	} {
		t.Run(tt.verb+" "+tt.resource, func(t *testing.T) {
			w := newAccessWorld(t)
			testcheck.NoError(t, w.server.Add(pod(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
			ann := w.as("ann")
			wantError(t, "without a role", tt.want, tt.request(t.Context(), ann))
			w.grant("ann", "", rule(tt.resource, tt.verb))
			wantError(t, "with a role", "", tt.request(t.Context(), ann))
		})
	}
}

// TestApplyMayCreate: server-side apply of an object that does not exist needs both verbs.
func TestApplyMayCreate(t *testing.T) {
	w := newAccessWorld(t)
	apply := func() error {
		_, err := w.as("ann").CoreV1().ConfigMaps("default").Apply(t.Context(), applycorev1.ConfigMap("m", "default").WithData(map[string]string{"a": "b"}),
			metav1.ApplyOptions{FieldManager: "ann"})
		return err
	}
	w.grant("ann", "default", rule("configmaps", "patch"))
	wantError(t, "patch only", `configmaps "m" is forbidden: User "ann" cannot create resource "configmaps" in API group "" in the namespace "default"`, apply())
	w.grant("ann", "default", rule("configmaps", "create"))
	wantError(t, "both", "", apply())
}

// TestEscalation: no user grants what the user does not hold.
func TestEscalation(t *testing.T) {
	w := newAccessWorld(t)
	roles := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create", "update"}}
	w.grant("ann", "default", roles)
	w.grant("ann", "default", rule("pods", "get"))
	role := func(name string, rules ...rbacv1.PolicyRule) error {
		_, err := w.as("ann").RbacV1().Roles("default").Create(t.Context(),
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		return err
	}
	bind := func(name, clusterRole string) error {
		_, err := w.as("ann").RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		}, metav1.CreateOptions{})
		return err
	}
	const attempt = `user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	wantError(t, "what she holds", "", role("reader", rule("pods", "get")))
	wantError(t, "more", `roles.rbac.authorization.k8s.io "writer" is forbidden: `+attempt+`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}`,
		role("writer", rule("pods", "get", "delete")))
	wantError(t, "a missing role", `clusterrole.rbac.authorization.k8s.io "none" not found`, bind("a", "none"))
	if err := bind("b", "admin"); err == nil || !strings.Contains(err.Error(), attempt) {
		t.Errorf("binding of admin: %v", err)
	}
	w.grant("ann", "default", rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"admin"}, Verbs: []string{"bind"}})
	wantError(t, "with the verb bind", "", bind("b", "admin"))
	w.grant("eve", "", rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"create"}})
	_, err := w.as("eve").RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: "all"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}},
	}, metav1.CreateOptions{})
	wantError(t, "aggregation", `clusterroles.rbac.authorization.k8s.io "all" is forbidden: must have cluster-admin privileges to use the aggregationRule`, err)
}

// TestNodeAuthorizer: a kubelet reads what the pods of its node use.
func TestNodeAuthorizer(t *testing.T) {
	w := newAccessWorld(t)
	pod := newPod("p")
	pod.Namespace = "default"
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = "node-1", "default"
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
	}
	claim := newClaim("data", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{
		Namespace: "default", Name: "data",
	}, PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h", NodeStageSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "stage"}},
	}}}
	testcheck.NoError(t, w.server.Add(pod, claim, pv))
	for _, tt := range []struct {
		verb, resource, sub, namespace, name, node string
		want                                       string // the reason; "": allowed
	}{
		{"get", "secrets", "", "default", "s", "node-1", ""},
		{"get", "secrets", "", "default", "s", "node-2", "no relationship found between node 'node-2' and this object"},
		{"get", "secrets", "", "kube-system", "stage", "node-1", ""},
		{"list", "secrets", "", "default", "", "node-1", "No Object name found"},
		{"delete", "secrets", "", "default", "s", "node-1", "can only read resources of this type"},
		{"get", "persistentvolumeclaims", "", "default", "data", "node-1", ""},
		{"list", "persistentvolumeclaims", "", "default", "", "node-1", "can only get individual resources of this type"},
		{"patch", "persistentvolumeclaims", "status", "default", "data", "node-1", ""},
		{"get", "persistentvolumes", "", "", "pv", "node-1", ""},
		{"get", "persistentvolumes", "", "", "pv", "node-2", "no relationship found between node 'node-2' and this object"},
		{"create", "serviceaccounts", "token", "default", "default", "node-1", ""},
		{"create", "serviceaccounts", "token", "default", "other", "node-1", "no relationship found between node 'node-1' and this object"},
		{"get", "nodes", "", "", "node-1", "node-1", ""},
		{"get", "nodes", "", "", "node-2", "node-1", "node 'node-1' cannot read 'node-2', only its own Node object"},
		{"list", "pods", "", "", "", "node-1", "can only list/watch pods with spec.nodeName field selector"},
		{"get", "pods", "", "default", "p", "node-1", ""},
	} {
		t.Run(strings.Join([]string{tt.verb, tt.resource, tt.sub, tt.name, tt.node}, " "), func(t *testing.T) {
			review, err := w.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:node:" + tt.node, Groups: []string{"system:nodes"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: tt.verb, Resource: tt.resource, Subresource: tt.sub, Namespace: tt.namespace, Name: tt.name,
					},
				},
			}, metav1.CreateOptions{})
			testcheck.NoError(t, err)
			testcheck.Equal(t, "review", authorizationv1.SubjectAccessReviewStatus{Allowed: tt.want == "", Reason: tt.want}, review.Status)
		})
	}
	list, err := w.as("system:node:node-1", "system:nodes").CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=node-1"})
	testcheck.NoError(t, err)
	testcheck.Equal(t, "pods of the node", 1, len(list.Items))
}

// TestInformerWaitsForAPermission: a cache stays empty until its user may list.
func TestInformerWaitsForAPermission(t *testing.T) {
	w := newAccessWorld(t)
	testcheck.NoError(t, w.server.Add(newPod("p", func(p *corev1.Pod) { p.Namespace = "default" })))
	host := sim.NewStepped(sim.SteppedConfig{})
	p := host.Process("reader")
	w.server.SetUser(p, authenticationv1.UserInfo{Username: "ann"})
	informer := w.server.Informers(p).Core().V1().Pods().Informer()
	testcheck.NoError(t, host.Run())
	if informer.HasSynced() {
		t.Fatal("the cache is full without a permission")
	}
	w.grant("ann", "kube-system", rule("pods", "list"))
	testcheck.NoError(t, host.Run())
	if informer.HasSynced() {
		t.Fatal("the cache is full without the permission to watch")
	}
	w.grant("ann", "kube-system", rule("pods", "watch"))
	testcheck.NoError(t, host.Run())
	testcheck.Equal(t, "objects in the cache", 1, len(informer.GetStore().List()))
}
