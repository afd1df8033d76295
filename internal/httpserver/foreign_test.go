package httpserver_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/volsim/volsim/internal/httpserver"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestForeignRequestsAreRefused sends hosts and origins to a server that also has the name dev.example.
func TestForeignRequestsAreRefused(t *testing.T) {
	const ok = "ok"
	handler := httpserver.RefuseForeign(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(ok))
	}), "dev.example")
	foreign := func(origin string) string {
		return `access denied: a page of "` + origin + `" may not use this server` + "\n"
	}
	rebound := func(host string) string {
		return `access denied: this server is not "` + host + `": use 127.0.0.1 or localhost` + "\n"
	}
	for _, tt := range []struct{ host, origin, want string }{
		{"127.0.0.1", "", ok},
		{"127.0.0.1:8080", "", ok},
		{"127.9.9.9:1", "", ok},
		{"localhost:8080", "", ok},
		{"LOCALHOST", "", ok},
		{"[::1]:1", "", ok},
		{"[::1]", "", ok},
		{"dev.example", "", ok},
		{"Dev.Example:443", "", ok},
		{"", "", rebound("")},
		{"volsim.example", "", rebound("volsim.example")},
		{"a.dev.example:80", "", rebound("a.dev.example:80")},
		{"127.0.0.1.example", "", rebound("127.0.0.1.example")},
		{"localhost.example", "", rebound("localhost.example")},
		{"127.0.0.1@a.example", "", rebound("127.0.0.1@a.example")},
		{"127.1", "", rebound("127.1")},
		{"0.0.0.0", "", rebound("0.0.0.0")},
		{"192.0.2.1", "", rebound("192.0.2.1")},
		{"127.0.0.1:80", "http://127.0.0.1:80", ok},
		{"localhost:80", "http://LOCALHOST:80", ok},
		{"dev.example", "https://dev.example", ok},
		{"127.0.0.1:80", "http://127.0.0.1:81", foreign("http://127.0.0.1:81")},
		{"127.0.0.1:80", "http://localhost:80", foreign("http://localhost:80")},
		{"127.0.0.1:80", "null", foreign("null")},
		{"127.0.0.1:80", "http://a.example", foreign("http://a.example")},
		{"127.0.0.1:80", "file://127.0.0.1:80", foreign("file://127.0.0.1:80")},
		{"127.0.0.1:80", "127.0.0.1:80", foreign("127.0.0.1:80")},
		{"a.example", "http://a.example", rebound("a.example")},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := httptest.NewRequest(method, "/", nil)
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			want := http.StatusForbidden
			if tt.want == ok {
				want = http.StatusOK
			}
			testcheck.Equal(t, method+" "+tt.host+" of "+tt.origin, tt.want, w.Body.String())
			testcheck.Equal(t, method+" "+tt.host+" of "+tt.origin, want, w.Code)
		}
	}
}
