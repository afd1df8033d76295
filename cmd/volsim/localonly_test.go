package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestServersOnLoopbackRefuseForeignPages: those of metrics and of the extender. One on another address has any name.
func TestServersOnLoopbackRefuseForeignPages(t *testing.T) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		address, host, origin string
		want                  int
	}{
		{"127.0.0.1:0", "127.0.0.1:1", "", http.StatusOK},
		{"127.0.0.1:0", "metrics.example", "", http.StatusForbidden},
		{"127.0.0.1:0", "127.0.0.1:1", "http://a.example", http.StatusForbidden},
		{"0.0.0.0:0", "metrics.example", "", http.StatusOK},
	} {
		socket := testcheck.Must(net.Listen("tcp", tt.address))
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Host = tt.host
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		localOnly(ok, socket).ServeHTTP(w, r)
		testcheck.Equal(t, tt.address+" "+tt.host, tt.want, w.Code)
		testcheck.NoError(t, socket.Close())
	}
}

// TestPageHostIsAName without scheme and port.
func TestPageHostIsAName(t *testing.T) {
	for _, name := range []string{"", "http://a.example", "a.example:80", "*"} {
		var out, errs strings.Builder
		status := run(t.Context(), []string{"serve", "--kubeconfig", filepath.Join(t.TempDir(), "config"), "--page-host", name}, &out, &errs)
		if status != 2 || !strings.Contains(errs.String(), "want a host name without scheme and port") {
			t.Errorf("%q: status %d, %s", name, status, errs.String())
		}
	}
}
