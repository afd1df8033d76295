package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// auditedEvents returns the events of an audit log in short form.
func auditedEvents(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(string(testcheck.Must(os.ReadFile(file)))) {
		var e auditv1.Event
		testcheck.NoError(t, json.Unmarshal([]byte(line), &e))
		words := []string{string(e.Level), string(e.Stage), e.User.Username, e.Verb, e.RequestURI}
		if e.RequestObject != nil {
			words = append(words, "with request")
		}
		if e.ResponseObject != nil {
			words = append(words, "with response")
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// TestServedRequestsAreAudited serves with an audit log, and finds a request, one without a valid token, and nothing
// of the controllers in the process. The file is appended to.
func TestServedRequestsAreAudited(t *testing.T) {
	for _, manual := range []bool{false, true} {
		dir := t.TempDir()
		file, path, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "config"), filepath.Join(dir, "policy")
		testcheck.NoError(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"+
			"rules: [{level: RequestResponse, resources: [{group: '', resources: [persistentvolumeclaims]}]}]\n"), 0o600))
		args := []string{"--audit-log", file, "--audit-policy", policy, "--audit-level", "Metadata"}
		if manual {
			args = append(args, "--by-hand")
		}
		const claims = "/api/v1/namespaces/default/persistentvolumeclaims"
		for range 2 {
			stop, _ := served(t, path, args...)
			config := testcheck.Must(clientcmd.BuildConfigFromFlags("", path))
			_, err := clientOf(t, path).CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
			testcheck.NoError(t, err)
			config.BearerToken = "wrong"
			req := testcheck.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api/v1/nodes", nil))
			resp := testcheck.Must(testcheck.Must(clientrest.HTTPClientFor(config)).Do(req))
			testcheck.NoError(t, resp.Body.Close())
			testcheck.Equal(t, "code", http.StatusUnauthorized, resp.StatusCode)
			if status, errs := stop(); status != 0 {
				t.Fatalf("status %d: %s", status, errs)
			}
		}
		want := []string{
			"RequestResponse ResponseComplete system:admin create " + claims + " with request with response",
			"Metadata ResponseStarted  list /api/v1/nodes",
		}
		testcheck.Equal(t, "events", slices.Concat(want, want), auditedEvents(t, file))
		testcheck.Equal(t, "mode", os.FileMode(auditFileMode), testcheck.Must(os.Stat(file)).Mode())
	}
}

// TestAuditOptionsAreChecked before anything starts.
func TestAuditOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	testcheck.NoError(t, os.WriteFile(broken, []byte("kind: Policy"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--audit-level", "Request"}, "--audit-level and --audit-policy require --audit-log"},
		{[]string{"--audit-policy", broken}, "--audit-level and --audit-policy require --audit-log"},
		{[]string{"--audit-log", "-", "--audit-level", "request"}, `unknown audit level "request": want None, Metadata, Request, RequestResponse`},
		{[]string{"--audit-log", "-", "--audit-policy", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"--audit-log", "-", "--audit-policy", broken}, "audit policy: "},
		{[]string{"--audit-log", filepath.Join(dir, "none", "log")}, "--audit-log: open "},
	} {
		var out, errs strings.Builder
		status := run(t.Context(), append([]string{"serve", "--kubeconfig", filepath.Join(dir, "config")}, tt.args...), &out, &errs)
		if status != 2 || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%q: status %d, %s; want %s", tt.args, status, errs.String(), tt.want)
		}
	}
}
