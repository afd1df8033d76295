package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cmd/volsim/internal/page"
	"github.com/volsim/volsim/internal/testcheck"
)

// secretOf returns the body of a Secret.
func secretOf(value string) string {
	return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + value + `"}},` +
		`"data":{"k":"` + base64.StdEncoding.EncodeToString([]byte(value)) + `"},"stringData":{"l":"` + value + `"}}`
}

// TestSavedWorldsHaveNoSecrets: neither does the page of a world whose requests of kubectl had some, nor what other
// commands write about the saved world. The world itself keeps them, also after an undo.
func TestSavedWorldsHaveNoSecrets(t *testing.T) {
	const value, secrets = "MARKER-OF-KUBECTL", "/api/v1/namespaces/default/secrets"
	p := testcheck.Must(page.NewStepped(page.SteppedConfig{Headers: []string{"nodes: 1"}}))
	defer func() { testcheck.NoError(t, p.Close()) }()
	send := func(method, path, media, body string) (code int, answer string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/"+media)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	written := map[string]string{}
	write := func(what, text string) { written[what] += text + "\n" }
	for _, tt := range []struct {
		method, path, media, body string
		want                      int
	}{
		{"POST", secrets, "json", secretOf(value), 201},
		{"POST", secrets, "json", secretOf(value), 409},
		{"PUT", secrets + "/s", "json", secretOf(value + value), 200},
		{"PATCH", secrets + "/s", "merge-patch+json", `{"stringData":{"m":"` + value + `"}}`, 200},
		{"PATCH", secrets + "/s?fieldManager=m", "apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {n: " + value + "}\n", 200},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "json", `{"spec":{"token":"` + value + `"}}`, 201},
	} {
		if code, answer := send(tt.method, tt.path, tt.media, tt.body); code != tt.want {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, code, answer)
		}
	}
	write("state of the page", string(testcheck.Must(json.Marshal(p.State()))))
	testcheck.Must(p.Do("rest"))
	undone := testcheck.Must(p.Undo())
	undone2 := testcheck.Must(p.Undo())
	write("undo", undone.Message+undone2.Message)
	if _, answer := send(http.MethodGet, secrets+"/s", "json", ""); !strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(value+value))) {
		t.Errorf("the world has lost the secret: %s", answer)
	}
	saved := strings.Join(p.Ops(), "\n") + "\n"
	if !strings.Contains(saved, "request PUT "+secrets+"/s") || !strings.Contains(saved, "REDACTED") {
		t.Errorf("saved world:\n%s", saved)
	}
	write("saved world", saved)
	if _, err := p.Load(saved); err != nil {
		t.Error(err)
	}

	dir := t.TempDir()
	file, again := filepath.Join(dir, "page.txt"), filepath.Join(dir, "session.txt")
	testcheck.NoError(t, os.WriteFile(file, []byte(saved), 0o600))
	status, out, errs := volsim(t.Context(), "replay", "--trace", file)
	if status != 0 {
		t.Errorf("replay: status %d: %s", status, errs)
	}
	write("replay", out+errs)
	request := "request POST " + secrets + " " + strings.Replace(secretOf(value), `"name":"s"`, `"name":"t"`, 1)
	_, out = runLines(t, []string{file}, request, request, "=", "!", "events", "request PATCH "+secrets+"/t type=merge "+`{"stringData":{"k":"`+value+`"}}`,
		"request PATCH "+secrets+"/t type=merge "+`{"data":"`+value+`"}`, "request POST "+secrets+" "+`{"stringData":{"k":["`+value+`"]}}`, "back", "save "+again)
	write("session", out)
	write("saved session", string(testcheck.Must(os.ReadFile(again))))
	for what, text := range written {
		for _, leak := range leaksOf(text, value) {
			t.Errorf("%s contains %s:\n%s", what, leak, text)
		}
	}
}

// TestScenarioWithSecretsWritesNone: what commands write about a scenario whose author has put secrets in manifests.
// The scenario itself has them, and so does a session that was saved from it.
func TestScenarioWithSecretsWritesNone(t *testing.T) {
	const value = "MARKER-OF-THE-AUTHOR"
	file := writeTemp(t, "secrets.txt", `nodes: 1
user alice
  apply
    apiVersion: v1
    kind: Secret
    metadata: {name: s}
    stringData: {k: `+value+`}
  patch secret s stringData.k=`+value+`2
  apply
    apiVersion: v1
    kind: Secret
    metadata: {name: s}
    stringData: {l: `+value+`3}
  create claim data 1Gi
  create pod web data
  wait pod web Running
  delete secret s
`)
	for _, args := range [][]string{
		{"explore", file, "--count", "20", "--json", "--quiet"}, {"explore", file, "--count", "20", "--faults", "conflict(0.2)", "--out", t.TempDir()}, {"replay", "--trace", file},
	} {
		status, out, errs := volsim(t.Context(), args...)
		if status != 0 {
			t.Errorf("%q: status %d: %s%s", args, status, out, errs)
		}
		for _, leak := range leaksOf(out+errs, value) {
			t.Errorf("%q writes %s:\n%s", args, leak, out+errs)
		}
	}
}

// TestServeWritesNoSecrets: neither to its output, nor to the audit log at any level without a policy.
func TestServeWritesNoSecrets(t *testing.T) {
	const value = "MARKER-OF-A-CLIENT"
	path, log := filepath.Join(t.TempDir(), "config"), filepath.Join(t.TempDir(), "audit.log")
	stop, announced := served(t, path, "--audit-log", log, "--audit-level", "RequestResponse")
	client, ctx := clientOf(t, path), t.Context()
	secrets := client.CoreV1().Secrets("default")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte(value)}}
	testcheck.Must(secrets.Create(ctx, secret, metav1.CreateOptions{}))
	_, err := secrets.Patch(ctx, "s", types.MergePatchType, []byte(`{"data":"`+value+`"}`), metav1.PatchOptions{})
	if err == nil {
		t.Error("an invalid patch is accepted")
	}
	stored := testcheck.Must(secrets.Get(ctx, "s", metav1.GetOptions{}))
	testcheck.Equal(t, "stored", value, string(stored.Data["k"]))
	token, err2 := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	testcheck.NoError(t, err2)
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}
	testcheck.Must(client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{}))
	config := testcheck.Must(clientcmd.BuildConfigFromFlags("", path))
	status, errs := stop()
	if status != 0 {
		t.Errorf("status %d", status)
	}
	signature := token.Status.Token[strings.LastIndex(token.Status.Token, ".")+1:]
	audited := string(testcheck.Must(os.ReadFile(log)))
	if !strings.Contains(audited, "/api/v1/namespaces/default/secrets") || !strings.Contains(audited, "tokenreviews") {
		t.Errorf("audit log: %s", audited)
	}
	for what, text := range map[string]string{"output": announced, "errors": errs, "audit log": audited, "error": err.Error()} {
		for _, leak := range leaksOf(text, value, signature, config.BearerToken) {
			t.Errorf("%s contains %s", what, leak)
		}
	}
}
