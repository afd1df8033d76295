package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestLongBodies sends bodies at and beyond the limit of 3 MiB.
func TestLongBodies(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	object := func(size int) string {
		const head, tail = `{"metadata":{"name":"a"},"unknown":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	const tooLong = "413 RequestEntityTooLarge Request entity too large: limit is 3145728"
	for _, tt := range []struct{ name, method, path, media, body, want string }{
		{"create", "POST", maps, "json", object(3 << 20), "201"},
		{"create, long", "POST", maps, "json", object(3<<20 + 1), tooLong},
		{"update", "PUT", maps + "/a", "json", object(3<<20 + 1), tooLong},
		{"patch", "PATCH", maps + "/a", "merge-patch+json", object(3<<20 + 1), tooLong},
		{"apply", "PATCH", maps + "/a?fieldManager=m", "apply-patch+yaml", object(3<<20 + 1), tooLong},
		{"delete", "DELETE", maps + "/a", "json", object(3<<20 + 1), tooLong},
		{"delete all", "DELETE", maps, "json", object(3<<20 + 1), tooLong},
		{"review", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "json", object(3<<20 + 1), tooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t.Context(), newHandler(newServer()), tt.method, tt.path, tt.body, "Content-Type", "application/"+tt.media)
			testcheck.Equal(t, "answer", tt.want, statusText(t, got))
		})
	}
}

// statusText returns the code of an answer, and the reason and message of an error.
func statusText(t *testing.T, got reply) string {
	t.Helper()
	text := itoa(got.code)
	if got.code >= http.StatusBadRequest {
		s := got.status(t)
		text += " " + string(s.Reason) + " " + s.Message
	}
	return text
}

// TestDeepBodies: nesting beyond 10,000 levels is refused in each format, by the libraries that upstream uses.
func TestDeepBodies(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	object := func(levels int) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"unknown":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}"
	}
	for _, tt := range []struct{ name, method, path, media, body, want string }{
		{"JSON", "POST", maps, "json", object(9_999), "201"},
		{"JSON, deep", "POST", maps, "json", object(10_000), "400 BadRequest the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character '[' exceeded max depth"},
		{"JSON, deepest", "POST", maps, "json", object(1_000_000), "400 BadRequest the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character '[' exceeded max depth"},
		{"YAML", "POST", maps, "yaml", object(9_000), "201"},
		{"YAML, deep", "POST", maps, "yaml", object(10_001), "400 BadRequest the object provided is unrecognized (must be of type ConfigMap): yaml: exceeded max depth of 10000"},
		{"aliases", "POST", maps, "yaml", aliases(9), "400 BadRequest the object provided is unrecognized (must be of type ConfigMap): yaml: document contains excessive aliasing"},
		{"merge patch", "PATCH", maps + "/kube-root-ca.crt", "merge-patch+json", object(10_000), "400 BadRequest error decoding patch: invalid character '[' exceeded max depth"},
		{"apply", "PATCH", maps + "/a?fieldManager=m", "apply-patch+yaml", object(10_001), "400 BadRequest error decoding YAML: error converting YAML to JSON: yaml: exceeded max depth of 10000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := statusText(t, ask(t.Context(), newHandler(newServer()), tt.method, tt.path, tt.body, "Content-Type", "application/"+tt.media))
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// aliases returns a document whose lists refer nine times to the list before.
func aliases(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := range levels {
		fmt.Fprintf(&b, "a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
	}
	return b.String()
}

// TestLongSelectors sends selectors at and beyond the limit.
func TestLongSelectors(t *testing.T) {
	const maps, most = "/api/v1/namespaces/default/configmaps", 64 << 10
	repeat := func(one string, size int) string { return strings.Repeat(one, size/len(one)) }
	tooLong := func(kind string, got int) string {
		return fmt.Sprintf("413 RequestEntityTooLarge Request entity too large: The allowed maximum of bytes in a %s selector is %d, got %d", kind, most, got)
	}
	for _, tt := range []struct{ name, method, query, want string }{
		{"labels", "GET", "labelSelector=" + repeat("!ab,", most)[:most-1], "200"},
		{"labels, long", "GET", "labelSelector=" + repeat("!ab,", most) + "!ab", tooLong("label", most+3)},
		{"fields", "GET", "fieldSelector=" + url.QueryEscape(repeat("metadata.name!=a,", most-17)+"metadata.name!=a"), "200"},
		{"fields, long", "GET", "fieldSelector=" + url.QueryEscape(repeat("metadata.name!=a,", most)+repeat("metadata.name!=b,", 34)), tooLong("field", most/17*17+34)},
		{"watch", "GET", "watch=1&labelSelector=" + repeat("!ab,", most) + "!ab", tooLong("label", most+3)},
		{"delete all", "DELETE", "labelSelector=" + repeat("!ab,", most) + "!ab", tooLong("label", most+3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t.Context(), newHandler(newServer()), tt.method, maps+"?"+tt.query, "")
			testcheck.Equal(t, "answer", tt.want, statusText(t, got))
		})
	}
}

// A slowBody is a body that blocks until it is released.
type slowBody struct {
	reading, release chan struct{}
	once             sync.Once
}

func (b *slowBody) Read([]byte) (int, error) {
	b.once.Do(func() { b.reading <- struct{}{} })
	<-b.release
	return 0, io.EOF
}

// TestRequestsInFlightAreBounded holds as many requests as are allowed, and sends one more of each sort. Creations
// and deletions with a slow body are those held; a deletion of several counts as reading nothing.
func TestRequestsInFlightAreBounded(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	users := map[string]authenticationv1.UserInfo{
		"ann":  {Username: "ann", Groups: []string{"dev"}},
		"root": {Username: "root", Groups: []string{"system:masters"}},
	}
	h := apiserver.NewHandler(newServer(), apiserver.HandlerConfig{
		Caller:      func(*http.Request) sim.Caller { return direct },
		Client:      func(c *fake.Clientset) *fake.Clientset { return c.AsUser(users["ann"]) },
		MutatingMax: 2,
	})
	body := &slowBody{reading: make(chan struct{}), release: make(chan struct{})}
	held := make(chan int)
	for range 2 {
		slow := &slowBody{reading: body.reading, release: body.release}
		go func() { held <- askBody(h, "POST", maps, slow).Code }()
		<-body.reading
	}
	for _, tt := range []struct{ name, method, path, as, want string }{
		{"create", "POST", maps, "", "429"},
		{"delete", "DELETE", maps + "/a", "", "429"},
		{"delete all", "DELETE", maps, "", "429"},
		{"post to a path", "POST", "/version", "", "429"},
		{"get", "GET", maps + "/kube-root-ca.crt", "", "200"},
		{"list", "GET", maps, "", "200"},
		{"path", "GET", "/version", "", "200"},
		{"superuser", "DELETE", maps + "/a", "root", "404"},
	} {
		var header []string
		if tt.as != "" {
			header = []string{"Impersonate-User", tt.as, "Impersonate-Group", "system:masters"}
		}
		got := ask(t.Context(), h, tt.method, tt.path, "", header...)
		testcheck.Equal(t, tt.name, tt.want, itoa(got.code))
		if got.code == http.StatusTooManyRequests {
			testcheck.Equal(t, "body", "Too many requests, please try again later.\n", got.body)
			testcheck.Equal(t, "Retry-After", "1", got.header.Get("Retry-After"))
		}
	}
	openWatch(t, h, maps+"?watch=1")() // a watch is not counted
	close(body.release)
	testcheck.Equal(t, "held", []int{http.StatusBadRequest, http.StatusBadRequest}, []int{<-held, <-held})
	testcheck.Equal(t, "create later", http.StatusCreated, ask(t.Context(), h, "POST", maps, `{"metadata":{"name":"a"}}`, jsonBody...).code)
}

// TestWatchesOfAUserAreBounded opens one watch too many of one user; another user may still watch.
func TestWatchesOfAUserAreBounded(t *testing.T) {
	h := apiserver.NewHandler(newServer(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return direct }, WatchesPerUserMax: 1, WatchesMax: 2,
	})
	const watch = "/api/v1/configmaps?watch=1"
	first := openWatch(t, h, watch)
	got := ask(t.Context(), h, "GET", watch, "")
	testcheck.Equal(t, "second", "429 TooManyRequests Too many requests, please try again later.", statusText(t, got))
	other := openWatch(t, h, watch, "Impersonate-User", "bob")
	got = ask(t.Context(), h, "GET", watch, "", "Impersonate-User", "eve")
	testcheck.Equal(t, "third user", "429 TooManyRequests Too many requests, please try again later.", statusText(t, got))
	other()
	first()
	openWatch(t, h, watch)()
}

// askBody is like ask, with another body.
func askBody(h http.Handler, method, target string, body io.Reader) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, body))
	return w
}

// A startedRecorder closes started with the header.
type startedRecorder struct {
	*httptest.ResponseRecorder
	started chan int
}

func (r startedRecorder) WriteHeader(code int) {
	r.ResponseRecorder.WriteHeader(code)
	r.started <- code
}

// openWatch opens a watch, and returns the function that ends it.
func openWatch(t *testing.T, h http.Handler, target string, headers ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w, ended := startedRecorder{httptest.NewRecorder(), make(chan int, 1)}, make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(w, req)
	}()
	testcheck.Equal(t, target, http.StatusOK, <-w.started)
	return func() {
		cancel()
		<-ended
	}
}
