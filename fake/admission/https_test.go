package admission_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// at makes a webhook one with the URL of a server.
func at(s *httptest.Server, ca []byte) func(*registrationv1.ValidatingWebhook) {
	return func(h *registrationv1.ValidatingWebhook) {
		h.ClientConfig = registrationv1.WebhookClientConfig{URL: ptr.To(s.URL + "/ask"), CABundle: ca}
	}
}

func caOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestWebhooksByHTTPS(t *testing.T) {
	var hang chan struct{}
	refused := httptest.NewTLSServer(http.NotFoundHandler())
	refused.Close()
	for _, test := range []struct {
		name    string
		handler func(r *rig) http.Handler
		change  func(h *registrationv1.ValidatingWebhook)
		want    string
	}{
		{"an answer", func(r *rig) http.Handler { return r.recorded("a", deny("by wire")) }, nil, `admission webhook "a.example.com" denied the request: by wire`},
		{"hangs", func(*rig) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				<-hang
			})
		}, func(h *registrationv1.ValidatingWebhook) { h.TimeoutSeconds = ptr.To[int32](1) }, `/ask?timeout=1s": context deadline exceeded`},
		{"is not trusted", func(r *rig) http.Handler { return r.recorded("a", allow) }, func(h *registrationv1.ValidatingWebhook) { h.ClientConfig.CABundle = nil }, "tls: failed to verify certificate"},
		{"is down", func(r *rig) http.Handler { return r.recorded("a", allow) }, func(h *registrationv1.ValidatingWebhook) {
			h.ClientConfig.URL = ptr.To(refused.URL)
		}, "connect: connection refused"},
		{"cuts off", func(*rig) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}, nil, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, nil)
			s := httptest.NewUnstartedServer(test.handler(r))
			s.Config.ErrorLog = quiet
			s.StartTLS()
			defer s.Close()
			hang = make(chan struct{})
			defer close(hang)
			h := hook("a", at(s, caOf(s)))
			if test.change != nil {
				test.change(&h)
			}
			r.validating("hooks", h)
			_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data"), metav1.CreateOptions{})
			r.expectError(err, test.want)
		})
	}
}
