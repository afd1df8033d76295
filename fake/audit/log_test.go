package audit_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/audit"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// A call is a request of a table.
type call struct {
	name, method, path, body string
	user                     string // "": the handler's own client; its group is dev
	header                   map[string]string
}

// epoch is the time of each request.
func epoch() time.Time { return sim.Epoch }

// newServer returns a server with roles on which user ann may use config maps, and be impersonated by bob.
func newServer() *fake.Server {
	return fake.NewServer(fake.Config{Now: epoch, RBAC: true, TokenKey: []byte("key")})
}

// perform makes requests one after the other, and returns the log.
func perform(t *testing.T, cfg audit.Config, calls ...call) string {
	t.Helper()
	var out bytes.Buffer
	cfg.Out = &out
	log := testcheck.Must(audit.New(cfg))
	server := newServer()
	for _, c := range setUp {
		do(t, apiserver.NewHandler(server, handlerConfig(nil, c)), c)
	}
	for _, c := range calls {
		fmt.Fprintf(&out, "# %s: %s %s\n", c.name, c.method, c.path)
		do(t, apiserver.NewHandler(server, handlerConfig(log, c)), c)
	}
	return out.String()
}

func handlerConfig(log *audit.Log, c call) apiserver.HandlerConfig {
	cfg := apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return testworld.ImmediateCaller(epoch) },
		Client: func(client *fake.Clientset) *fake.Clientset {
			if c.user == "" {
				return client
			}
			return client.AsUser(authenticationv1.UserInfo{Username: c.user, Groups: []string{"dev", "system:authenticated"}})
		},
	}
	if log != nil {
		cfg.Audit = log
	}
	return cfg
}

// do makes one request. A watch ends when it has sent what there is.
func do(t *testing.T, handler http.Handler, c call) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
	req.Header.Set("Audit-Id", "id-"+strings.ReplaceAll(c.name, " ", "-"))
	req.Header.Set("User-Agent", "kubectl/v1.36")
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w
}

// setUp are requests that are not recorded.
var setUp = []call{
	{name: "role", method: "POST", path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", body: `{"metadata":{"name":"maps"},
		"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["*"]},{"apiGroups":[""],"resources":["users","groups"],"verbs":["impersonate"]}]}`},
	{name: "binding", method: "POST", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body: `{"metadata":{"name":"maps"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"maps"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"dev"}]}`},
}

const (
	maps     = "/api/v1/namespaces/default/configmaps"
	claims   = "/api/v1/namespaces/default/persistentvolumeclaims"
	secrets  = "/api/v1/namespaces/default/secrets"
	accounts = "/api/v1/namespaces/default/serviceaccounts"
)

// calls are the requests of the golden files.
var calls = []call{
	{name: "create", method: "POST", path: maps, user: "ann", body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`},
	{name: "exists", method: "POST", path: maps, user: "ann", body: `{"metadata":{"name":"a"}}`},
	{name: "broken", method: "POST", path: maps, user: "ann", body: `{`},
	{name: "get", method: "GET", path: maps + "/a", user: "ann"},
	{name: "missing", method: "GET", path: maps + "/b", user: "ann"},
	{name: "list", method: "GET", path: maps + "?fieldSelector=metadata.name%3Da", user: "ann"},
	{name: "refused", method: "GET", path: "/api/v1/persistentvolumes", user: "ann"},
	{name: "refused by name", method: "GET", path: "/api/v1/nodes/n", user: "ann"},
	{name: "update", method: "PUT", path: maps + "/a", user: "ann", body: `{"metadata":{"name":"a","uid":"u"},"data":{"k":"w"}}`},
	{
		name: "patch", method: "PATCH", path: maps + "/a", user: "ann", body: `{"data":{"k":"x"}}`,
		header: map[string]string{"Content-Type": "application/merge-patch+json"},
	},
	{
		name: "apply", method: "PATCH", path: maps + "/b?fieldManager=m", user: "ann", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {k: z}\n",
		header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
	},
	{name: "watch", method: "GET", path: maps + "?watch=1&timeoutSeconds=1&resourceVersion=1000000", user: "ann"},
	{name: "delete", method: "DELETE", path: maps + "/a", user: "ann", body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`},
	{name: "delete all", method: "DELETE", path: maps + "?labelSelector=x%3Dy", user: "ann"},
	{name: "claim", method: "POST", path: claims, body: `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	{
		name: "claim patch", method: "PATCH", path: claims + "/c", body: `{"metadata":{"labels":{"a":"b"}}}`,
		header: map[string]string{"Content-Type": "application/merge-patch+json"},
	},
	{
		name: "claim apply", method: "PATCH", path: claims + "/c?fieldManager=m", body: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, labels: {c: d}}\n",
		header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
	},
	{name: "claim delete", method: "DELETE", path: claims + "/c", body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`},
	{name: "impersonated", method: "GET", path: maps, user: "ann", header: map[string]string{"Impersonate-User": "bob"}},
	{name: "may not impersonate", method: "GET", path: maps, user: "ann", header: map[string]string{"Impersonate-User": "system:serviceaccount:default:default"}},
	{name: "secret", method: "POST", path: secrets, user: "ann", body: `{"metadata":{"name":"s"},"stringData":{"k":"MARKER"}}`},
	{name: "token", method: "POST", path: accounts + "/default/token", body: `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"audiences":["a"]}}`},
	{name: "token review", method: "POST", path: "/apis/authentication.k8s.io/v1/tokenreviews", body: `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{"token":"MARKER"}}`},
	{name: "access review", method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`},
	{name: "path", method: "GET", path: "/healthz"},
	{name: "discovery", method: "GET", path: "/apis/node.k8s.io"},
	{name: "no path", method: "GET", path: "/nothing"},
	{name: "no resource", method: "GET", path: "/apis/example.com/v1/things"},
}

// TestEvents compares the events of the requests with the files in testdata.
func TestEvents(t *testing.T) {
	for _, level := range []string{"", "Request", "RequestResponse"} {
		name := strings.ToLower(level)
		if level == "" {
			name = "metadata"
		}
		t.Run(name, func(t *testing.T) {
			var got string
			synctest.Test(t, func(t *testing.T) { got = perform(t, audit.Config{Level: level}, calls...) }) // the watch ends at once
			if strings.Contains(got, "MARKER") {
				t.Error("a secret is in the log")
			}
			file := filepath.Join("testdata", name+".txt")
			if *update {
				testcheck.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want := testcheck.Must(os.ReadFile(file))
			testcheck.Equal(t, "events", strings.Split(string(want), "\n"), strings.Split(got, "\n"))
		})
	}
}
