package accessdiff

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

var (
	impersonators = []authenticationv1.UserInfo{
		{Username: "ann", Groups: []string{"system:authenticated"}},
		{Username: "system:serviceaccount:default:agent", Groups: []string{"system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/node-name": {"node-1"},
		}},
		{Username: "root", Groups: []string{"system:masters"}},
	}
	impersonated     = []string{"bob", "system:node:node-1", "system:node:node-2", "system:node:Bad_Name", "system:serviceaccount:default:sa", "system:anonymous", "ann"}
	impersonateVerbs = []string{
		"impersonate", "impersonate:user-info", "impersonate-on:user-info:*", "impersonate-on:user-info:list", "impersonate-on:user-info:create",
		"impersonate:arbitrary-node", "impersonate-on:arbitrary-node:list", "impersonate-on:arbitrary-node:create",
		"impersonate:associated-node", "impersonate-on:associated-node:list", "impersonate:serviceaccount", "impersonate-on:serviceaccount:list",
		"impersonate-on:user-info:get", "*",
	}
	impersonateResources = []string{"users", "groups", "nodes", "serviceaccounts", "uids", "userextras/scopes", "userextras/*", "pods", "*"}
	// impersonatedRequests are methods and paths.
	impersonatedRequests = []string{"GET /api/v1/namespaces/default/pods", "POST /api/v1/namespaces/default/pods", "GET /healthz", "GET /api/v1/pods?watch=true"}
)

func drawImpersonationRules(t *rapid.T) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, rapid.IntRange(0, 5).Draw(t, "rules"))
	for i := range rules {
		rules[i] = rbacv1.PolicyRule{
			Verbs: some(t, impersonateVerbs, "verbs", 1), APIGroups: some(t, []string{"", "authentication.k8s.io", "*"}, "groups", 1),
			Resources: some(t, impersonateResources, "resources", 1),
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			rules[i].ResourceNames = some(t, []string{"bob", "node-1", "sa", "dev", "*"}, "names", 1)
		case 1:
			rules[i] = rbacv1.PolicyRule{Verbs: some(t, impersonateVerbs, "verbs", 1), NonResourceURLs: []string{"/healthz"}}
		}
	}
	return rules
}

func drawHeaders(t *rapid.T) http.Header {
	h := http.Header{}
	if rapid.IntRange(0, 9).Draw(t, "unnamed") > 0 {
		h.Set(authenticationv1.ImpersonateUserHeader, one(t, impersonated, "user"))
	}
	for _, group := range rapid.SliceOfN(rapid.SampledFrom([]string{"dev", "ops", "system:masters", "a", "b", ""}), 0, 5).Draw(t, "groups") {
		if rapid.Bool().Draw(t, "with groups") {
			h.Add(authenticationv1.ImpersonateGroupHeader, group)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "with a UID") == 0 {
		h.Set(authenticationv1.ImpersonateUIDHeader, "7")
	}
	if rapid.IntRange(0, 3).Draw(t, "with extra") == 0 {
		key := one(t, []string{"Scopes", "Bad%20key", "Example.com%2fscopes"}, "key") // one key: upstream checks several in any order
		for _, value := range rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", ""}), 1, 4).Draw(t, "values") {
			h.Add(authenticationv1.ImpersonateUserExtraHeaderPrefix+key, value)
		}
	}
	return h
}

// impersonationTheirs returns the user that upstream's filter makes of a request, or its error.
func impersonationTheirs(w *world, who authenticationv1.UserInfo, method, path string, h http.Header) string {
	seen := ""
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u, _ := genericapirequest.UserFrom(r.Context())
		seen = describeUser(u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
	})
	handler := impersonation.WithConstrainedImpersonation(next, superuserOr{rbac.New(w, w, w, w)}, legacyscheme.Codecs)
	r := httptest.NewRequest(method, path, nil)
	r.Header = h.Clone()
	resolver := &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		return err.Error()
	}
	extra := map[string][]string{}
	for k, v := range who.Extra {
		extra[k] = v
	}
	ctx := genericapirequest.WithUser(r.Context(), &user.DefaultInfo{Name: who.Username, Groups: who.Groups, Extra: extra})
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r.WithContext(genericapirequest.WithRequestInfo(ctx, info)))
	if seen != "" {
		return seen
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), answer.Body.Bytes())
	if err != nil {
		return err.Error()
	}
	return "error: " + obj.(*metav1.Status).Message
}

// impersonationOurs is the same of volsim. A role lets the user see itself.
func impersonationOurs(t rapid.TB, server *fake.Server, who authenticationv1.UserInfo, method, path string, h http.Header) string {
	config := apiserver.NewConfig(server, sim.DirectCaller(), func(c *fake.Clientset) *fake.Clientset { return c.AsUser(who) })
	transport, err := clientrest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, config.Host+path, strings.NewReader("{}"))
	r.RequestURI, r.Header = "", h.Clone()
	r.Header.Set("Content-Type", "application/json")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answer, err := transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 400 {
		return ""
	}
	var status metav1.Status
	body := make([]byte, 1<<16)
	n, _ := answer.Body.Read(body)
	if err := runtime.DecodeInto(legacyscheme.Codecs.UniversalDeserializer(), body[:n], &status); err != nil {
		t.Fatalf("%s: %v", body[:n], err)
	}
	return status.Message
}

func describeUser(name, uid string, groups []string, extra map[string][]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		parts = append(parts, fmt.Sprintf("%s=%q", k, extra[k]))
	}
	return fmt.Sprintf("%q %q %q %q", name, uid, groups, parts)
}

// TestImpersonationIsAlike compares who a request is made as, and the refusals, with drawn rules and headers.
func TestImpersonationIsAlike(t *testing.T) {
	counts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{clusterRoles: []*rbacv1.ClusterRole{
			{ObjectMeta: metav1.ObjectMeta{Name: "drawn"}, Rules: drawImpersonationRules(t)},
			{ObjectMeta: metav1.ObjectMeta{Name: "self"}, Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
			}},
		}, clusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			bindingOf("drawn", "Group", "system:authenticated"), bindingOf("self", "Group", "system:authenticated"),
			bindingOf("self", "Group", "system:unauthenticated"),
		}}
		w.clusterRoleBindings[2].Name = "anonymous"
		server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, RBAC: true, SkipBootstrap: true})
		admin := server.Client(sim.DirectCaller())
		for _, resource := range []string{"clusterrolebindings", "clusterroles", "rolebindings", "roles"} {
			remove(t, admin, resource)
		}
		if err := server.Add(w.objects()...); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			who := rapid.SampledFrom(impersonators).Draw(t, "by")
			h := drawHeaders(t)
			request := one(t, impersonatedRequests, "request")
			method, path, _ := strings.Cut(request, " ")
			theirs, ours := impersonationTheirs(w, who, method, path, h), impersonationOurs(t, server, who, method, path, h)
			text, refused := strings.CutPrefix(theirs, "error: ")
			counts[refused]++
			if refused && text != ours || !refused && strings.Contains(ours, "impersonat") {
				t.Fatalf("%s by %s with %v:\nupstream %q\nours     %q", request, who.Username, h, theirs, ours)
			}
			compareSelf(t, w, server, who, h)
		}
	})
	t.Logf("%d refused, %d not", counts[true], counts[false])
}

// compareSelf compares the user that a request to see oneself is made as.
func compareSelf(t *rapid.T, w *world, server *fake.Server, who authenticationv1.UserInfo, h http.Header) {
	const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	theirs := impersonationTheirs(w, who, http.MethodPost, path, h)
	config := apiserver.NewConfig(server, sim.DirectCaller(), func(c *fake.Clientset) *fake.Clientset { return c.AsUser(who) })
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			maps.Copy(r.Header, h)
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	ours := ""
	if err != nil {
		ours = "error: " + err.Error()
	} else {
		u := review.Status.UserInfo
		extra := map[string][]string{}
		for k, v := range u.Extra {
			extra[k] = v
		}
		ours = describeUser(u.Username, u.UID, u.Groups, extra)
	}
	if ours != theirs {
		t.Fatalf("oneself by %s with %v:\nupstream %q\nours     %q", who.Username, h, theirs, ours)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func bindingOf(role, kind, name string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}},
	}
}

// superuserOr allows a superuser everything, as the server's authorizers do.
type superuserOr struct{ authorizer.Authorizer }

func (s superuserOr) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(a.GetUser().GetGroups(), "system:masters") {
		return authorizer.DecisionAllow, "", nil
	}
	return s.Authorizer.Authorize(ctx, a)
}
