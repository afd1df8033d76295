package webhookcases

import (
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhooktesting "k8s.io/apiserver/pkg/admission/plugin/webhook/testing"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

const (
	namespace     = "webhook-test"
	configuration = "test-webhooks"
)

var custom = schema.GroupVersionResource{Group: "custom.resource", Version: "v1", Resource: "crd"}

// newServer returns a server in which the Service of the cases is upstream's test server.
func newServer(t *testing.T, answers *httptest.Server) *fake.Server {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server := fake.NewServer(fake.Config{Now: func() time.Time { return now }, Namespaces: []string{namespace}})
	crd.Serve(server)
	admission.Serve(server)
	admin := server.Client(sim.DirectCaller())
	must(t, crd.InstallFS(t.Context(), admin, definitions))
	ns, err := admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	must(t, err)
	ns.Labels["runlevel"] = "0"
	_, err = admin.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
	must(t, err)
	host := answers.Listener.Addr().(*net.TCPAddr)
	service := metav1.ObjectMeta{Namespace: "default", Name: "webhook-test"}
	must(t, server.Add(&corev1.Service{ObjectMeta: service, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}))
	service.Labels = map[string]string{discoveryv1.LabelServiceName: service.Name}
	must(t, server.Add(&discoveryv1.EndpointSlice{
		ObjectMeta: service, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host.IP.String()}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(host.Port))}}, //nolint:gosec // a port
	}))
	return server
}

// outcome creates the object of a case. It returns its labels and the annotations of the audit event.
func outcome(t *testing.T, server *fake.Server, isCRD, dryRun bool, labels map[string]string) (map[string]string, map[string]string, error) {
	t.Helper()
	ctx := audit.WithAuditContext(t.Context())
	events := &sink{}
	event := audit.AuditContextFrom(ctx)
	must(t, event.Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequest}, events))
	client, options := server.Client(sim.DirectCaller()), metav1.CreateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	all := map[string]string{}
	maps.Copy(all, labels)
	var got metav1.Object
	var err error
	if isCRD {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "custom.resource/v1", "kind": "TestCRD"}}
		all["crd.name"] = "my-test-crd"
		u.SetName("my-test-crd")
		u.SetLabels(all)
		got, err = client.Dynamic().Resource(custom).Namespace(namespace).Create(ctx, u, options)
	} else {
		all["pod.name"] = "my-pod"
		got, err = client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "my-pod", Labels: all},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, options)
	}
	event.ProcessEventStage(ctx, auditinternal.StageResponseComplete)
	if err != nil {
		return nil, events.annotations, err
	}
	return got.GetLabels(), events.annotations, nil
}

// sink keeps the annotations of an event.
type sink struct{ annotations map[string]string }

func (s *sink) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		s.annotations = maps.Clone(e.Annotations)
	}
	return true
}

func check(t *testing.T, test *webhooktesting.MutatingTest, labels, annotations map[string]string, err error) {
	t.Helper()
	if test.ExpectAllow != (err == nil) {
		t.Fatalf("allowed is %v: %v", test.ExpectAllow, err)
	}
	if err != nil {
		if !strings.Contains(err.Error(), test.ErrorContains) {
			t.Errorf("error %q, want %q", err, test.ErrorContains)
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != test.ExpectStatusCode {
			t.Errorf("error %#v, want code %d", err, test.ExpectStatusCode)
		}
	}
	if test.ExpectLabels != nil && !maps.Equal(labels, test.ExpectLabels) {
		t.Errorf("labels %v, want %v", labels, test.ExpectLabels)
	}
	for name := range annotations {
		if !strings.Contains(name, "/") || strings.Contains(name, "/round_1_") { // upstream's test has one round
			delete(annotations, name)
		}
	}
	if want := test.ExpectAnnotations; len(annotations)+len(want) > 0 && !maps.Equal(annotations, want) {
		t.Errorf("annotations\n%v, want\n%v", annotations, want)
	}
}

func start(t *testing.T) (*httptest.Server, *url.URL) {
	t.Helper()
	answers := webhooktesting.NewTestServer(t)
	answers.TLS.ClientAuth = tls.NoClientCert // ours has no certificate of its own
	answers.StartTLS()
	t.Cleanup(answers.Close)
	at, err := url.Parse(answers.URL)
	must(t, err)
	return answers, at
}

func TestMutating(t *testing.T) {
	answers, at := start(t)
	cases := append(webhooktesting.NewMutatingTestCases(at, configuration),
		webhooktesting.ConvertToMutatingTestCases(webhooktesting.NewNonMutatingTestCases(at), configuration)...)
	if len(cases) < 39 {
		t.Errorf("%d cases", len(cases))
	}
	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			server := newServer(t, answers)
			must(t, server.Add(&registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}, Webhooks: test.Webhooks}))
			labels, annotations, err := outcome(t, server, test.IsCRD, test.IsDryRun, test.AdditionalLabels)
			check(t, &test, labels, annotations, err)
		})
	}
}

func TestValidating(t *testing.T) {
	answers, at := start(t)
	for _, test := range webhooktesting.NewNonMutatingTestCases(at) {
		t.Run(test.Name, func(t *testing.T) {
			server := newServer(t, answers)
			must(t, server.Add(&registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}, Webhooks: test.Webhooks}))
			labels, annotations, err := outcome(t, server, test.IsCRD, test.IsDryRun, test.AdditionalLabels)
			check(t, &webhooktesting.MutatingTest{
				ExpectAllow: test.ExpectAllow, ErrorContains: test.ErrorContains, ExpectStatusCode: test.ExpectStatusCode,
				ExpectLabels: test.ExpectLabels, ExpectAnnotations: test.ExpectAnnotations,
			}, labels, annotations, err)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
