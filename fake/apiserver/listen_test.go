package apiserver_test

import (
	"io"
	"net/http"
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
