package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// A rig is a server with webhooks inside the process, one Service for each name.
type rig struct {
	*testing.T
	server *fake.Server
	admin  *fake.Clientset
	asked  []*admissionv1.AdmissionRequest // in the order of the calls
	log    []string                        // "NAME OPERATION KIND name", in the order of the calls
}

// answer is what a webhook says to a request.
type answer func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

func allow(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

func deny(message string) answer {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: message, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}}
	}
}

// patch answers with a JSON patch.
func patch(format string, args ...any) answer {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{
			Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch), Patch: fmt.Appendf(nil, format, args...),
		}
	}
}

// label answers with a patch that adds a label, to objects that have labels.
func label(name, value string) answer {
	return patch(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, name, value)
}

func newRig(t *testing.T, answers map[string]answer, options ...func(*fake.Config)) *rig {
	t.Helper()
	r := &rig{T: t}
	handlers := map[string]http.Handler{}
	for name, f := range answers {
		handlers[name] = r.recorded(name, f)
	}
	return r.serve(handlers, options...)
}

// recorded is the handler of a webhook whose calls the rig records.
func (r *rig) recorded(name string, f answer) http.Handler {
	return admission.Handler(func(req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		r.asked = append(r.asked, req)
		r.log = append(r.log, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", name, req.Operation, req.Kind.Kind, req.Name)))
		return f(req)
	})
}

func (r *rig) serve(handlers map[string]http.Handler, options ...func(*fake.Config)) *rig {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg := fake.Config{Now: func() time.Time { return now }, Services: map[types.NamespacedName]http.Handler{}}
	for name, h := range handlers {
		cfg.Services[types.NamespacedName{Namespace: "hooks", Name: name}] = h
	}
	for _, f := range options {
		f(&cfg)
	}
	r.server = fake.NewServer(cfg)
	crd.Serve(r.server)
	admission.Serve(r.server)
	r.admin = r.server.Client(sim.DirectCaller())
	return r
}

// hook is a webhook that is called for all claims.
func hook(service string, change ...func(*registrationv1.ValidatingWebhook)) registrationv1.ValidatingWebhook {
	h := registrationv1.ValidatingWebhook{
		Name: service + ".example.com", SideEffects: ptr.To(registrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
		ClientConfig:            registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "hooks", Name: service, Path: ptr.To("/ask")}},
		Rules:                   []registrationv1.RuleWithOperations{rule("", "v1", "persistentvolumeclaims", registrationv1.OperationAll)},
	}
	for _, f := range change {
		f(&h)
	}
	return h
}

func rule(group, version, resource string, operations ...registrationv1.OperationType) registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{Operations: operations, Rule: registrationv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource},
	}}
}

func about(rules ...registrationv1.RuleWithOperations) func(*registrationv1.ValidatingWebhook) {
	return func(h *registrationv1.ValidatingWebhook) { h.Rules = rules }
}

func ignored(h *registrationv1.ValidatingWebhook) { h.FailurePolicy = ptr.To(registrationv1.Ignore) }

// validating stores a configuration of validating webhooks.
func (r *rig) validating(name string, hooks ...registrationv1.ValidatingWebhook) {
	r.Helper()
	_, err := r.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(r.Context(),
		&registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	r.noError(err)
}

// mutating stores a configuration of mutating webhooks. again are the names of the services that are called again.
func (r *rig) mutating(name string, again string, hooks ...registrationv1.ValidatingWebhook) {
	r.Helper()
	c := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, h := range hooks {
		data, err := json.Marshal(h)
		r.noError(err)
		var m registrationv1.MutatingWebhook
		r.noError(json.Unmarshal(data, &m))
		if strings.Contains(again, h.ClientConfig.Service.Name) {
			m.ReinvocationPolicy = ptr.To(registrationv1.IfNeededReinvocationPolicy)
		}
		c.Webhooks = append(c.Webhooks, m)
	}
	_, err := r.admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(r.Context(), c, metav1.CreateOptions{})
	r.noError(err)
}

func (r *rig) noError(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) expectLog(want ...string) {
	r.Helper()
	if got := strings.Join(r.log, "\n"); got != strings.Join(want, "\n") {
		r.Errorf("calls:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	r.log = nil
}

func (r *rig) expectError(err error, want string) {
	r.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		r.Errorf("error %v, want %q", err, want)
	}
}

func claim(name string, labels ...string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "x"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}},
		},
	}
	for _, l := range labels {
		name, value, _ := strings.Cut(l, "=")
		c.Labels[name] = value
	}
	return c
}
