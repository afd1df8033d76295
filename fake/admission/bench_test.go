package admission_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/sim"
)

// BenchmarkCreate creates a claim with validating webhooks inside the process: of a server without this package, with
// it, with a webhook for another resource, and with webhooks that are called.
func BenchmarkCreate(b *testing.B) {
	for _, bench := range []struct {
		name   string
		serve  bool
		others int
		hooks  int
	}{{"without the package", false, 0, 0}, {"no webhook", true, 0, 0}, {"1 of another resource", true, 1, 0}, {"1 webhook", true, 0, 1}, {"10 webhooks", true, 0, 10}} {
		b.Run(bench.name, func(b *testing.B) {
			server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, Services: map[types.NamespacedName]http.Handler{
				{Namespace: "hooks", Name: "a"}: admission.Handler(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
					return &admissionv1.AdmissionResponse{Allowed: true}
				}),
			}})
			if bench.serve {
				admission.Serve(server)
			}
			admin, ctx := server.Client(sim.DirectCaller()), context.Background()
			for i := range bench.hooks + bench.others {
				h := hook("a")
				if i >= bench.hooks {
					h.Rules = []registrationv1.RuleWithOperations{rule("", "v1", "pods", registrationv1.OperationAll)}
				}
				if _, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &registrationv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("hook-", i)}, Webhooks: []registrationv1.ValidatingWebhook{h},
				}, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			claims, c := admin.CoreV1().PersistentVolumeClaims("default"), claim("x")
			for i := 0; b.Loop(); i++ {
				c.Name = fmt.Sprint("claim-", i)
				if _, err := claims.Create(ctx, c, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
