package envtest_test

import (
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/envtest"
	"github.com/volsim/volsim/internal/testcheck"
)

// whoAmI returns the user that the API server sees.
func whoAmI(t *testing.T, config *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	testcheck.NoError(t, err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	return review.Status.UserInfo
}

func TestUsers(t *testing.T) {
	e := &envtest.Environment{}
	config := start(t, e)
	if got := whoAmI(t, config); got.Username != "admin" || !slices.Equal(got.Groups, []string{"system:masters", "system:authenticated"}) {
		t.Errorf("Start's user is %v", got)
	}
	// The base may be any configuration; its credentials and its host are not used.
	base := &rest.Config{
		Host: "https://example.com", QPS: 7, Burst: 14, UserAgent: "suite", BearerToken: "secret",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	for _, base := range []*rest.Config{nil, {}, config, base} {
		user, err := e.AddUser(envtest.User{Name: "alice", Groups: []string{"viewers"}}, base)
		testcheck.NoError(t, err)
		if got := whoAmI(t, user.Config()); got.Username != "alice" || !slices.Equal(got.Groups, []string{"viewers", "system:authenticated"}) {
			t.Errorf("the user is %v", got)
		}
		if base != nil && base.QPS == 7 && (user.Config().QPS != 7 || user.Config().UserAgent != "suite") {
			t.Errorf("the settings of the base are lost: %v", user.Config())
		}
		if first, second := user.Config(), user.Config(); first != second {
			t.Error("Config returns a new configuration at each call")
		}
	}
	if base.Host != "https://example.com" || base.Transport != nil {
		t.Error("the base was changed")
	}
}

// A user may do what roles allow.
func TestUsersAreAuthorized(t *testing.T) {
	e := &envtest.Environment{}
	admin := testcheck.Must(kubernetes.NewForConfig(start(t, e)))
	user := testcheck.Must(e.AddUser(envtest.User{Name: "alice", Groups: []string{"viewers"}}, nil))
	alice := testcheck.Must(kubernetes.NewForConfig(user.Config()))
	list := func() error {
		_, err := alice.CoreV1().PersistentVolumeClaims("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	testcheck.Must(admin.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "viewers"}},
	}, metav1.CreateOptions{}))
	testcheck.NoError(t, list())
}

// A kubeconfig is served by HTTPS until Stop.
func TestKubeConfig(t *testing.T) {
	e := &envtest.Environment{}
	start(t, e)
	alice, err := e.AddUser(envtest.User{Name: "alice"}, nil)
	testcheck.NoError(t, err)
	bob, err := e.AddUser(envtest.User{Name: "bob"}, nil)
	testcheck.NoError(t, err)
	first, err := alice.KubeConfig()
	testcheck.NoError(t, err)
	again, err := alice.KubeConfig()
	testcheck.NoError(t, err)
	if string(first) != string(again) {
		t.Error("the second call returns another kubeconfig")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(first)
	testcheck.NoError(t, err)
	if !strings.HasPrefix(config.Host, "https://127.0.0.1:") {
		t.Errorf("the server is %s", config.Host)
	}
	if got := whoAmI(t, config).Username; got != "alice" {
		t.Errorf("the user is %q", got)
	}
	testcheck.NoError(t, e.Stop())
	client, err := kubernetes.NewForConfig(config)
	testcheck.NoError(t, err)
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the server of the kubeconfig still answers after Stop")
	}
	if _, err := bob.KubeConfig(); err == nil || !strings.Contains(err.Error(), "call Start first") {
		t.Errorf("a kubeconfig after Stop: %v", err)
	}
}

func TestAddUserBeforeStart(t *testing.T) {
	_, err := new(envtest.Environment).AddUser(envtest.User{Name: "alice"}, nil)
	if err == nil || !strings.Contains(err.Error(), `add user "alice": the environment is not running: call Start first`) {
		t.Errorf("got %v", err)
	}
}
