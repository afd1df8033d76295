package envtest_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/envtest"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/internal/testcheck"
)

const webhookFile = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- name: vclaim.example.com
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-claim}}
  failurePolicy: Fail
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [persistentvolumeclaims]}
  sideEffects: None
`

// serveWebhooks answers at the address of the options, with their certificate, as a manager does.
func serveWebhooks(t *testing.T, o *envtest.WebhookInstallOptions, handler http.Handler) {
	t.Helper()
	cert := testcheck.Must(tls.LoadX509KeyPair(filepath.Join(o.LocalServingCertDir, "tls.crt"), filepath.Join(o.LocalServingCertDir, "tls.key")))
	l := testcheck.Must(tls.Listen("tcp", net.JoinHostPort(o.LocalServingHost, strconv.Itoa(o.LocalServingPort)),
		&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

func TestWebhooksOfTheSuite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "manifests.yaml"), []byte(webhookFile), 0o600); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			Paths: []string{dir},
			MutatingWebhooks: []*registrationv1.MutatingWebhookConfiguration{{
				ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
				Webhooks: []registrationv1.MutatingWebhook{{
					Name: "mclaim.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(registrationv1.SideEffectClassNone),
					ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Name: "s", Namespace: "n", Path: ptr.To("/mutate-claim")}},
					Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{"CREATE"}, Rule: registrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"},
					}}},
				}},
			}},
		},
	}
	config := testcheck.Must(env.Start())
	defer func() {
		dir := env.WebhookInstallOptions.LocalServingCertDir
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}()
	mux := http.NewServeMux()
	mux.Handle("/mutate-claim", admission.Handler(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{
			Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
			Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"by":"webhook"}}]`),
		}
	}))
	mux.Handle("/validate-claim", admission.Handler(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if !strings.Contains(string(r.Object.Raw), `"by":"webhook"`) || r.Name == "bad" {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "bad name"}}
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	}))
	claims := testcheck.Must(kubernetes.NewForConfig(config)).CoreV1().PersistentVolumeClaims("default")

	_, err := claims.Create(t.Context(), cluster.NewClaim("early", "1Gi"), metav1.CreateOptions{})
	if want := `failed calling webhook "mclaim.example.com": failed to call webhook: Post "https://127.0.0.1:`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("before the manager serves: %v, want %q", err, want)
	}
	serveWebhooks(t, &env.WebhookInstallOptions, mux)
	claim, err := claims.Create(t.Context(), cluster.NewClaim("good", "1Gi"), metav1.CreateOptions{})
	if err != nil || claim.Labels["by"] != "webhook" {
		t.Errorf("created %v, %v", claim, err)
	}
	_, err = claims.Create(t.Context(), cluster.NewClaim("bad", "1Gi"), metav1.CreateOptions{})
	if want := `admission webhook "vclaim.example.com" denied the request: bad name`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
