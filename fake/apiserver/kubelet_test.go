package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// kubelets describe the requests that they get.
type kubelets struct{}

func (kubelets) Kubelet(node string) http.Handler {
	if node == "down" {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := testcheck.Must(io.ReadAll(r.Body))
		w.Header().Set("X-Node", node)
		if strings.HasPrefix(r.URL.Path, "/teapot") {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprintf(w, "%s %s of %s%s", r.Method, r.URL, node, body)
	})
}

// TestKubeletProxy passes requests on to the kubelets of existing nodes.
func TestKubeletProxy(t *testing.T) {
	t.Parallel()
	host := sim.NewStepped(sim.SteppedConfig{})
	t.Cleanup(host.Close)
	tests := []struct {
		request, body   string
		want            string // code and body
		withoutKubelets string // the same of a handler without kubelets
	}{
		{"GET /api/v1/nodes/up/proxy/metrics", "", "200 GET /metrics of up", "404 "},
		{"GET /api/v1/nodes/up/proxy/stats/summary?only=1", "", "200 GET /stats/summary?only=1 of up", "404 "},
		{"GET /api/v1/nodes/up/proxy/stats/", "", "200 GET /stats/ of up", "404 "},
		{"GET /api/v1/nodes/up/proxy", "", "200 GET / of up", "405 "},
		{"GET /api/v1/nodes/https:up:10250/proxy/metrics", "", "200 GET /metrics of up", "404 "},
		{"POST /api/v1/nodes/up/proxy/run", " with a body", "200 POST /run of up with a body", "404 "},
		{"GET /api/v1/nodes/up/proxy/teapot", "", "418 GET /teapot of up", "404 "},
		{"GET /api/v1/nodes/gone/proxy/metrics", "", `404 nodes "gone" not found`, "404 "},
		{"GET /api/v1/nodes/down/proxy/metrics", "", "503 error trying to reach service: kubelet of down: connection refused", "404 "},
		{"GET /api/v1/nodes/a:b:c:d/proxy/metrics", "", `400 invalid node request "a:b:c:d"`, "404 "},
		{"GET /api/v1/namespaces/default/pods/up/proxy/metrics", "", "404 ", "404 "},
		{"GET /apis/apps/v1/nodes/up/proxy/metrics", "", "404 ", "404 "},
	}
	for _, without := range []bool{false, true} {
		s := fake.NewServer(fake.Config{Now: host.Now, Kubelets: kubelets{}})
		for _, name := range []string{"up", "down"} {
			testcheck.NoError(t, s.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}
		handler := apiserver.NewHandler(s, apiserver.HandlerConfig{
			Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }, WithoutKubelets: without,
		})
		for _, tt := range tests {
			method, path, _ := strings.Cut(tt.request, " ")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(tt.body)))
			got := fmt.Sprintf("%d %s", w.Code, w.Body)
			want := tt.want
			if without {
				want = tt.withoutKubelets
			}
			code, text, _ := strings.Cut(want, " ")
			if !strings.HasPrefix(got, code+" ") || !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), text) {
				t.Errorf("%s, without kubelets %v: %s, want %s", tt.request, without, got, want)
			}
			if !without && w.Code == http.StatusOK && w.Header().Get("X-Node") != "up" {
				t.Errorf("%s: header %v", tt.request, w.Header())
			}
		}
	}
}
