package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// An accessWorld is a server with RBAC and its listener.
type accessWorld struct {
	t         *testing.T
	admin     *fake.Clientset
	authority *apiserver.Authority
	listener  *apiserver.Listener
}

func newAccessWorld(t *testing.T) *accessWorld {
	t.Helper()
	server := fake.NewServer(fake.Config{Now: time.Now, RBAC: true, TokenKey: []byte("secret")})
	w := &accessWorld{t: t, admin: server.Client(sim.DirectCaller()), authority: testcheck.Must(apiserver.NewAuthority())}
	handler := apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }})
	w.listener = testcheck.Must(apiserver.Listen(apiserver.ListenConfig{Handler: handler, Authority: w.authority, Token: server.AuthenticateToken}))
	t.Cleanup(func() { testcheck.NoError(t, w.listener.Close()) })
	return w
}

// who returns the user and groups that the server sees, or the error.
func (w *accessWorld) who(config *clientrest.Config) string {
	w.t.Helper()
	review, err := testcheck.Must(kubernetes.NewForConfig(config)).AuthenticationV1().SelfSubjectReviews().Create(
		w.t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	u := review.Status.UserInfo
	return strings.TrimSpace(u.Username + " " + strings.Join(u.Groups, ","))
}

// with returns the listener's configuration with another credential.
func (w *accessWorld) with(change func(*clientrest.Config)) *clientrest.Config {
	config := w.listener.Config()
	config.BearerToken = ""
	change(config)
	return config
}

func (w *accessWorld) cert(by *apiserver.Authority, user string, groups ...string) *clientrest.Config {
	cert, key, err := by.NewClient(user, groups...)
	testcheck.NoError(w.t, err)
	return w.with(func(c *clientrest.Config) { c.CertData, c.KeyData = cert, key })
}

// foreignToken returns a token that a server with a key and a clock issues.
func foreignToken(t *testing.T, key string, now func() time.Time) string {
	t.Helper()
	issued, err := fake.NewServer(fake.Config{Now: now, TokenKey: []byte(key)}).Client(sim.DirectCaller()).CoreV1().ServiceAccounts("default").
		CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	return issued.Status.Token
}

// TestCredentials: a request is that of the user of its certificate or token.
func TestCredentials(t *testing.T) {
	w := newAccessWorld(t)
	issued, err := w.admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	token := func(text string) *clientrest.Config {
		return w.with(func(c *clientrest.Config) { c.BearerToken = text })
	}
	foreign := testcheck.Must(apiserver.NewAuthority())
	for name, tt := range map[string]struct {
		config *clientrest.Config
		want   string
	}{
		"the listener's token": {w.listener.Config(), "system:admin system:masters,system:authenticated"},
		"a certificate":        {w.cert(w.authority, "ann", "dev"), "ann dev,system:authenticated"},
		"a foreign authority":  {w.cert(foreign, "ann", "system:masters"), "Unauthorized"},
		"no common name":       {w.cert(w.authority, "", "dev"), "Unauthorized"},
		"a service account":    {token(issued.Status.Token), "system:serviceaccount:default:default system:serviceaccounts,system:serviceaccounts:default,system:authenticated"},
		"a truncated token":    {token(issued.Status.Token[:40]), "Unauthorized"},
		"nonsense":             {token("nonsense"), "Unauthorized"},
		"of another server":    {token(foreignToken(t, "another key", time.Now)), "Unauthorized"},
		"an expired token":     {token(foreignToken(t, "secret", func() time.Time { return time.Now().Add(-2 * time.Hour) })), "Unauthorized"},
		"for another audience": {token(testcheck.Must(w.admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}}, metav1.CreateOptions{})).Status.Token), "Unauthorized"},
		"none": {token(""), "Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) { testcheck.Equal(t, "user", tt.want, w.who(tt.config)) })
	}
	if _, err := testcheck.Must(kubernetes.NewForConfig(token(""))).Discovery().ServerVersion(); err != nil {
		t.Errorf("the version for anonymous users: %v", err)
	}
}

// TestImpersonation: a user acts as another one if a role allows it, by HTTPS and in memory.
func TestImpersonation(t *testing.T) {
	w := newAccessWorld(t)
	memory := apiserver.NewConfig(w.admin.Server(), sim.DirectCaller())
	ann := apiserver.NewConfig(w.admin.Server(), sim.DirectCaller(), func(c *fake.Clientset) *fake.Clientset {
		return c.AsUser(authenticationv1.UserInfo{Username: "ann", Groups: []string{"system:authenticated"}})
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "actor"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users", "serviceaccounts"}, ResourceNames: []string{"bob", "default"}, Verbs: []string{"impersonate"}},
	}}
	testcheck.Must(w.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))
	testcheck.Must(w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "actor"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "actor"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}},
	}, metav1.CreateOptions{}))
	grant(t, w, "eve", rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}, Verbs: []string{"impersonate-on:arbitrary-node:create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"nodes"}, ResourceNames: []string{"node-1"}, Verbs: []string{"impersonate:arbitrary-node"}})
	eve := apiserver.NewConfig(w.admin.Server(), sim.DirectCaller(), func(c *fake.Clientset) *fake.Clientset {
		return c.AsUser(authenticationv1.UserInfo{Username: "eve", Groups: []string{"system:authenticated"}})
	})
	const refused = ` at the cluster scope`
	const constrained = `selfsubjectreviews.authentication.k8s.io is forbidden: User "ann" cannot impersonate-on:user-info:create resource "selfsubjectreviews" in API group "authentication.k8s.io"` + refused
	for name, tt := range map[string]struct {
		config *clientrest.Config
		as     clientrest.ImpersonationConfig
		want   string
	}{
		"by HTTPS":                         {w.listener.Config(), clientrest.ImpersonationConfig{UserName: "bob", Groups: []string{"dev"}}, "bob dev,system:authenticated"},
		"in memory":                        {memory, clientrest.ImpersonationConfig{UserName: "bob"}, "bob system:authenticated"},
		"the anonymous":                    {memory, clientrest.ImpersonationConfig{UserName: "system:anonymous"}, `selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews" in API group "authentication.k8s.io"` + refused},
		"allowed":                          {ann, clientrest.ImpersonationConfig{UserName: "bob"}, "bob system:authenticated"},
		"a service account":                {ann, clientrest.ImpersonationConfig{UserName: "system:serviceaccount:default:default"}, "system:serviceaccount:default:default system:serviceaccounts,system:serviceaccounts:default,system:authenticated"},
		"another user":                     {ann, clientrest.ImpersonationConfig{UserName: "eve"}, constrained},
		"a group":                          {ann, clientrest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:masters"}}, constrained},
		"a UID":                            {ann, clientrest.ImpersonationConfig{UserName: "bob", UID: "1"}, constrained},
		"an extra value":                   {ann, clientrest.ImpersonationConfig{UserName: "bob", Extra: map[string][]string{"scopes": {"x"}}}, constrained},
		"a group only":                     {ann, clientrest.ImpersonationConfig{Groups: []string{"dev"}}, `requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)} without impersonating a user name`},
		"oneself":                          {ann, clientrest.ImpersonationConfig{UserName: "ann"}, constrained},
		"a node, by an administrator":      {memory, clientrest.ImpersonationConfig{UserName: "system:node:node-1"}, "system:node:node-1 system:nodes,system:authenticated"},
		"a superuser, by an administrator": {memory, clientrest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:masters"}}, "bob system:masters,system:authenticated"},
		"a node, for this request":         {eve, clientrest.ImpersonationConfig{UserName: "system:node:node-1"}, "system:node:node-1 system:nodes,system:authenticated"},
		"another node":                     {eve, clientrest.ImpersonationConfig{UserName: "system:node:node-2"}, `nodes.authentication.k8s.io "node-2" is forbidden: User "eve" cannot impersonate:arbitrary-node resource "nodes" in API group "authentication.k8s.io"` + refused},
	} {
		t.Run(name, func(t *testing.T) {
			config := clientrest.CopyConfig(tt.config)
			config.Impersonate = tt.as
			testcheck.Equal(t, "user", tt.want, w.who(config))
		})
	}
}

// grant binds a new cluster role to a user.
func grant(t *testing.T, w *accessWorld, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: user}
	testcheck.Must(w.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}))
	testcheck.Must(w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{}))
}

// TestUsersWithoutRights makes the same requests as users without roles, by HTTPS and in memory: the errors are the same.
func TestUsersWithoutRights(t *testing.T) {
	w := newAccessWorld(t)
	ann := authenticationv1.UserInfo{Username: "ann", Groups: []string{"system:authenticated"}}
	const cannot = ` is forbidden: User "ann" cannot `
	const here = ` in API group "" in the namespace "default"`
	for name, client := range map[string]kubernetes.Interface{
		"HTTPS":     testcheck.Must(kubernetes.NewForConfig(w.cert(w.authority, "ann"))),
		"in memory": testcheck.Must(kubernetes.NewForConfig(apiserver.NewConfig(w.admin.Server(), sim.DirectCaller(), func(c *fake.Clientset) *fake.Clientset { return c.AsUser(ann) }))),
		"clientset": w.admin.AsUser(ann),
	} {
		pods := client.CoreV1().Pods("default")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
		for _, tt := range []struct {
			what, want string
			do         func() error
		}{
			{"get", `pods "p"` + cannot + `get resource "pods"` + here, func() error { _, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); return err }},
			{"list", `pods` + cannot + `list resource "pods"` + here, func() error { _, err := pods.List(t.Context(), metav1.ListOptions{}); return err }},
			{"list one", `pods "p"` + cannot + `list resource "pods"` + here, func() error {
				_, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=p"})
				return err
			}},
			{"watch", `pods` + cannot + `watch resource "pods"` + here, func() error { _, err := pods.Watch(t.Context(), metav1.ListOptions{}); return err }},
			{"create", `pods` + cannot + `create resource "pods"` + here, func() error { _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); return err }},
			{"update", `pods "p"` + cannot + `update resource "pods"` + here, func() error { _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); return err }},
			{"update the status", `pods "p"` + cannot + `update resource "pods/status"` + here, func() error {
				_, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
				return err
			}},
			{"patch", `pods "p"` + cannot + `patch resource "pods"` + here, func() error {
				_, err := pods.Patch(t.Context(), "p", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
				return err
			}},
			{"delete", `pods "p"` + cannot + `delete resource "pods"` + here, func() error { return pods.Delete(t.Context(), "p", metav1.DeleteOptions{}) }},
			{"delete all", `pods` + cannot + `deletecollection resource "pods"` + here, func() error {
				return pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
			}},
			{"evict", `pods "p"` + cannot + `create resource "pods/eviction"` + here, func() error {
				return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}})
			}},
			{"a token", `serviceaccounts "a"` + cannot + `create resource "serviceaccounts/token"` + here, func() error {
				_, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "a", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
				return err
			}},
		} {
			t.Run(name+", "+tt.what, func(t *testing.T) {
				err := tt.do()
				if !apierrors.IsForbidden(err) {
					t.Fatalf("error %v", err)
				}
				testcheck.Equal(t, "error", tt.want, err.Error())
			})
		}
	}
}

// TestPathsAreAuthorized: what is no resource is subject to rules, too, and a resource that does not exist is
// refused before it is not found.
func TestPathsAreAuthorized(t *testing.T) {
	w := newAccessWorld(t)
	client := testcheck.Must(kubernetes.NewForConfig(w.cert(w.authority, "ann"))).Discovery().RESTClient()
	for path, want := range map[string]string{
		"/api": "", "/version": "", "/openapi/v3": "",
		"/metrics":                 `forbidden: User "ann" cannot get path "/metrics"`,
		"/apis/none.com/v1/things": `things.none.com is forbidden: User "ann" cannot list resource "things" in API group "none.com" at the cluster scope`,
	} {
		err := client.Get().AbsPath(path).Do(t.Context()).Error()
		got := ""
		if err != nil {
			got = err.Error()
		}
		testcheck.Equal(t, path, want, got)
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v is no refusal", path, err)
		}
	}
}
