package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"none":                 {token(""), "Unauthorized"},
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
	const refused = ` at the cluster scope`
	for name, tt := range map[string]struct {
		config *clientrest.Config
		as     clientrest.ImpersonationConfig
		want   string
	}{
		"by HTTPS":          {w.listener.Config(), clientrest.ImpersonationConfig{UserName: "bob", Groups: []string{"dev"}}, "bob dev,system:authenticated"},
		"in memory":         {memory, clientrest.ImpersonationConfig{UserName: "bob"}, "bob system:authenticated"},
		"the anonymous":     {memory, clientrest.ImpersonationConfig{UserName: "system:anonymous"}, `selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews" in API group "authentication.k8s.io"` + refused},
		"allowed":           {ann, clientrest.ImpersonationConfig{UserName: "bob"}, "bob system:authenticated"},
		"a service account": {ann, clientrest.ImpersonationConfig{UserName: "system:serviceaccount:default:default"}, "system:serviceaccount:default:default system:serviceaccounts,system:serviceaccounts:default,system:authenticated"},
		"another user":      {ann, clientrest.ImpersonationConfig{UserName: "eve"}, `users "eve" is forbidden: User "ann" cannot impersonate resource "users" in API group ""` + refused},
		"a group":           {ann, clientrest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:masters"}}, `groups "system:masters" is forbidden: User "ann" cannot impersonate resource "groups" in API group ""` + refused},
		"a UID":             {ann, clientrest.ImpersonationConfig{UserName: "bob", UID: "1"}, `uids.authentication.k8s.io "1" is forbidden: User "ann" cannot impersonate resource "uids" in API group "authentication.k8s.io"` + refused},
		"an extra value":    {ann, clientrest.ImpersonationConfig{UserName: "bob", Extra: map[string][]string{"scopes": {"x"}}}, `userextras.authentication.k8s.io "x" is forbidden: User "ann" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io"` + refused},
	} {
		t.Run(name, func(t *testing.T) {
			config := clientrest.CopyConfig(tt.config)
			config.Impersonate = tt.as
			testcheck.Equal(t, "user", tt.want, w.who(config))
		})
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
