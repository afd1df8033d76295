package apiserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake/apiserver"
)

// TestListenRequiresTheToken makes requests with and without the token, and through the kubeconfig.
func TestListenRequiresTheToken(t *testing.T) {
	l, err := apiserver.Listen(apiserver.ListenConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		_, _ = io.WriteString(w, "hello")
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	anonymous, wrong := l.Config(), l.Config()
	anonymous.BearerToken, wrong.BearerToken = "", "wrong"
	for _, tc := range []struct {
		name string
		cfg  *clientrest.Config
		path string
		want int
	}{
		{"with the token", l.Config(), "/api", http.StatusOK},
		{"without", anonymous, "/api", http.StatusUnauthorized},
		{"with another", wrong, "/api", http.StatusUnauthorized},
		{"health needs none", anonymous, "/readyz", http.StatusOK},
		{"nor does the version", anonymous, "/version", http.StatusOK},
		{"a path that looks like it does", anonymous, "/versions", http.StatusUnauthorized},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, err := clientrest.HTTPClientFor(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Get(l.URL() + tc.path)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != tc.want {
				t.Errorf("got %d, want %d", answer.StatusCode, tc.want)
			}
		})
	}
}

// TestCloseEndsWatches checks that a watch ends when the server is closed.
func TestCloseEndsWatches(t *testing.T) {
	begun := make(chan struct{})
	l, err := apiserver.Listen(apiserver.ListenConfig{Handler: http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request,
	) {
		close(begun)
		<-r.Context().Done()
	})})
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientrest.HTTPClientFor(l.Config())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		answer, err := client.Get(l.URL() + "/")
		if err == nil {
			err = answer.Body.Close()
		}
		ended <- err
	}()
	<-begun
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the waiting request: %v", err)
	}
}

// listen starts a listener of a new server.
func listen(t *testing.T) *apiserver.Listener {
	t.Helper()
	return listenWith(t, newHandler(newServer()))
}

func listenWith(t *testing.T, h http.Handler) *apiserver.Listener {
	t.Helper()
	l, err := apiserver.Listen(apiserver.ListenConfig{Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestListenParsesTheToken sends the token in the forms that the real server knows.
func TestListenParsesTheToken(t *testing.T) {
	l := listen(t)
	cfg := l.Config()
	token := cfg.BearerToken
	cfg.BearerToken = ""
	client, err := clientrest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		header string
		want   int
	}{
		{"Bearer " + token, http.StatusOK},
		{"bearer " + token, http.StatusOK},
		{"BEARER " + token + " more", http.StatusOK},
		{" Bearer " + token + " ", http.StatusOK},
		{"Bearer  " + token, http.StatusUnauthorized},
		{"Bearer", http.StatusUnauthorized},
		{"Bearer ", http.StatusUnauthorized},
		{"Basic " + token, http.StatusUnauthorized},
		{token, http.StatusUnauthorized},
		{"Bearer\t" + token, http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.URL()+"/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", tc.header)
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != tc.want {
			t.Errorf("%q: got %d, want %d", tc.header, answer.StatusCode, tc.want)
		}
	}
}

// TestHalfSentRequestsEnd sends half of a body. The server answers at the deadline and closes the
// connection.
func TestHalfSentRequestsEnd(t *testing.T) {
	h := newHandler(newServer())
	l := listenWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" {
			// Only the connection has a deadline: on a busy machine the answer may take longer.
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		h.ServeHTTP(w, r)
	}))
	cfg := l.Config()
	tlsConfig, err := clientrest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, tc := range []struct {
		name, request, token, want string
	}{
		{"create", "POST " + maps + "?timeout=50ms", cfg.BearerToken, "504 Gateway Timeout"},
		{"update", "PUT " + maps + "/a?timeout=50ms", cfg.BearerToken, "504 Gateway Timeout"},
		{"patch", "PATCH " + maps + "/a?timeout=50ms", cfg.BearerToken, "504 Gateway Timeout"},
		{"delete", "DELETE " + maps + "/a?timeout=50ms", cfg.BearerToken, "504 Gateway Timeout"},
		{"no token", "POST " + maps + "?timeout=50ms", "no", "401 Unauthorized"},
		{"not read", "GET " + maps + "?timeout=50ms", cfg.BearerToken, "200 OK"},
		{"watch", "GET " + maps + "?watch=1&timeoutSeconds=1&timeout=50ms", cfg.BearerToken, "200 OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", strings.TrimPrefix(l.URL(), "https://"), tlsConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			media := "application/json"
			if tc.name == "patch" {
				media = "application/merge-patch+json"
			}
			_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n"+
				"Content-Length: 100\r\n\r\n{\"half\":", tc.request, tc.token, media)
			if err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			line, _, _ := strings.Cut(string(out), "\r\n")
			if line != "HTTP/1.1 "+tc.want {
				t.Errorf("got %s; want %s", out, tc.want)
			}
			if tc.want[0] == '5' && !strings.Contains(string(out), `"message":"Timeout: request did not complete within the allotted timeout"`) {
				t.Errorf("got %s", out)
			}
		})
	}
}

// TestTimeoutParameter sends values of the timeout parameter.
func TestTimeoutParameter(t *testing.T) {
	h := newHandler(newServer())
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, tc := range []struct{ target, want string }{
		{maps + "?timeout=10s", "200"},
		{maps + "?timeout=0s", "200"},
		{maps + "?timeout=-1s", "200"},
		{maps + "?timeout=", "200"},
		{maps + "?timeout=10000h", "200"},
		{maps + "?timeout=invalid", `400 BadRequest invalid timeout specified in the request URL - time: invalid duration "invalid"`},
		{maps + "?timeout=10", `400 BadRequest invalid timeout specified in the request URL - time: missing unit in duration "10"`},
		{"/version?timeout=x", `400 BadRequest invalid timeout specified in the request URL - time: invalid duration "x"`},
		{"/apis?timeout=x", `400 BadRequest invalid timeout specified in the request URL - time: invalid duration "x"`},
		{maps + "?watch=1&timeoutSeconds=1&timeout=x", "200"},
		{"/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1&timeout=x", "200"},
	} {
		got := ask(t.Context(), h, http.MethodGet, tc.target, "")
		text := itoa(got.code)
		if got.code != http.StatusOK {
			s := got.status(t)
			text += " " + string(s.Reason) + " " + s.Message
		}
		if text != tc.want {
			t.Errorf("%s: got %s; want %s", tc.target, text, tc.want)
		}
	}
}
