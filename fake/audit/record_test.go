package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	authenticationv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/audit"
	"github.com/volsim/volsim/internal/testcheck"
)

// summary returns the stage, code, user and message of an event.
func summary(e auditv1.Event) string {
	words := []string{string(e.Stage), e.User.Username}
	if e.ResponseStatus != nil {
		code, _ := json.Marshal(e.ResponseStatus.Code)
		words = append(words, string(code), e.ResponseStatus.Message)
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

func summaries(t *testing.T, log string) []string {
	t.Helper()
	var all []string
	for _, e := range events(t, log) {
		all = append(all, summary(e))
	}
	return all
}

// TestWatch: the start of a watch's response is an event, and so is its end.
func TestWatch(t *testing.T) { synctest.Test(t, testWatch) }

func testWatch(t *testing.T) {
	watch := call{name: "watch", method: "GET", path: maps + "?watch=1&timeoutSeconds=1", user: "ann"}
	old := call{name: "old", method: "GET", path: maps + "?watch=1&resourceVersion=x", user: "ann"}
	testcheck.Equal(t, "events", []string{
		"RequestReceived ann", "ResponseStarted ann 200", "ResponseComplete ann 200",
		"RequestReceived ann",
		`ResponseStarted ann 500 resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`,
		`ResponseComplete ann 500 resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`,
	}, summaries(t, perform(t, audit.Config{}, watch, old)))
}

// TestPanic: the event of a request whose handler panics says so, and the panic goes on.
func TestPanic(t *testing.T) {
	var out bytes.Buffer
	cfg := handlerConfig(testcheck.Must(audit.New(audit.Config{Out: &out})), call{user: "ann"})
	as, calls := cfg.Client, 0
	cfg.Client = func(c *fake.Clientset) *fake.Clientset {
		if calls++; calls > 1 { // the first one is for the record
			panic("broken")
		}
		return as(c)
	}
	handler := apiserver.NewHandler(newServer(), cfg)
	func() {
		defer func() { testcheck.Equal(t, "panic", any("broken"), recover()) }()
		do(t, handler, call{name: "panic", method: "GET", path: maps})
	}()
	testcheck.Equal(t, "events", []string{"RequestReceived ann", "Panic ann 500 APIServer panic'd: broken"}, summaries(t, out.String()))
}

// A full writer fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestRequestIsRefusedIfItsEventCannotBeWritten compares the answer with upstream's.
func TestRequestIsRefusedIfItsEventCannotBeWritten(t *testing.T) {
	log := testcheck.Must(audit.New(audit.Config{Out: full{}}))
	w := do(t, apiserver.NewHandler(newServer(), handlerConfig(log, call{})), call{name: "get", method: "GET", path: maps + "?labelSelector=a<b&limit=1"})
	testcheck.Equal(t, "code", http.StatusInternalServerError, w.Code)
	testcheck.Equal(t, "body", `Internal Server Error: "`+maps+`?labelSelector=a&lt;b&amp;limit=1": failed to store audit event`+"\n", w.Body.String())
}

// TestAuditID: the ID of the events is the request's, or a new one, and a header of the response.
func TestAuditID(t *testing.T) {
	var out bytes.Buffer
	handler := apiserver.NewHandler(newServer(), handlerConfig(testcheck.Must(audit.New(audit.Config{Out: &out})), call{}))
	for _, sent := range []string{"mine", ""} {
		out.Reset()
		w := do(t, handler, call{name: "id", method: "GET", path: "/version", header: map[string]string{"Audit-Id": sent}})
		got := w.Header().Get("Audit-Id")
		if sent != "" && got != sent || got == "" {
			t.Errorf("sent %q: got %q", sent, got)
		}
		for _, e := range events(t, out.String()) {
			testcheck.Equal(t, "ID of the event", got, string(e.AuditID))
		}
	}
}

// TestUnauthenticatedRequestsAreRecorded: with the response only, without a user.
func TestUnauthenticatedRequestsAreRecorded(t *testing.T) {
	var out bytes.Buffer
	log := testcheck.Must(audit.New(audit.Config{Out: &out, Level: "RequestResponse"}))
	cfg := handlerConfig(log, call{})
	listener := testcheck.Must(apiserver.Listen(apiserver.ListenConfig{
		Handler: apiserver.NewHandler(newServer(), cfg),
		Token: func(string, ...string) (authenticationv1.UserInfo, []string, error) {
			return authenticationv1.UserInfo{}, nil, errors.New("unknown")
		},
	}))
	get(t, listener, "MARKER", "/api/v1/secrets", http.StatusUnauthorized)
	get(t, listener, "", "/version", http.StatusOK)
	get(t, listener, listener.Config().BearerToken, "/version", http.StatusOK)
	testcheck.NoError(t, listener.Close())
	testcheck.Equal(t, "events", []string{
		"ResponseStarted  401 Unauthorized",
		"RequestReceived system:anonymous", "ResponseComplete system:anonymous 200",
		"RequestReceived system:admin", "ResponseComplete system:admin 200",
	}, summaries(t, out.String()))
	if strings.Contains(out.String(), "MARKER") || strings.Contains(out.String(), listener.Config().BearerToken) {
		t.Error("a token is in the log")
	}
}

// get makes a request to a listener and checks the code of the response.
func get(t *testing.T, l *apiserver.Listener, token, path string, want int) {
	t.Helper()
	config := l.Config()
	config.BearerToken = token
	client := testcheck.Must(clientrest.HTTPClientFor(config))
	req := testcheck.Must(http.NewRequestWithContext(context.Background(), http.MethodGet, l.URL()+path, nil))
	resp := testcheck.Must(client.Do(req))
	_, _ = io.Copy(io.Discard, resp.Body)
	testcheck.NoError(t, resp.Body.Close())
	testcheck.Equal(t, path, want, resp.StatusCode)
	if resp.Header.Get("Audit-Id") == "" {
		t.Errorf("%s: no Audit-Id in the response", path)
	}
}
