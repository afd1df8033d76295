package fake_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

// The messages are those of upstream's pkg/apis/discovery/validation.
func TestEndpointSlice(t *testing.T) {
	w := newWorld(t)
	client := w.User.DiscoveryV1().EndpointSlices("default")
	s := testcheck.Must(client.Create(w.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.1.1.1"}, DeprecatedTopology: map[string]string{corev1.LabelHostname: "n"},
		}},
		Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(80))}},
	}, metav1.CreateOptions{}))
	expect(t, s.Generation, int64(1))
	expect(t, *s.Ports[0].Name+"/"+string(*s.Ports[0].Protocol), "/TCP")
	expect(t, s.Endpoints[0].DeprecatedTopology, nil)
	patch := func(data string) (*discoveryv1.EndpointSlice, error) {
		return client.Patch(w.Context(), "s", types.MergePatchType, []byte(data), metav1.PatchOptions{})
	}
	s = testcheck.Must(patch(`{"metadata":{"annotations":{"a":"b"}}}`))
	expect(t, s.Generation, int64(1))
	s = testcheck.Must(patch(`{"metadata":{"labels":{"a":"b"}}}`))
	expect(t, s.Generation, int64(2))
	s = testcheck.Must(patch(`{"endpoints":[{"addresses":["10.1.1.2"]}]}`))
	expect(t, s.Generation, int64(3))
	for data, want := range map[string]string{
		`{"addressType":"IPv6","endpoints":[]}`: `addressType: Invalid value: "IPv6": field is immutable`,
		`{"addressType":"IP"}`:                  `addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"`,
		`{"addressType":null}`:                  "addressType: Required value",
		`{"endpoints":[{}]}`:                    "endpoints[0].addresses: Required value: must contain at least 1 address",
		`{"endpoints":[{"addresses":["::1"]}]}`: `endpoints[0].addresses: Invalid value: "::1": must be an IPv4 address`,
		`{"endpoints":[{"addresses":["x"]}]}`:   `endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		`{"ports":[{"name":"a"},{"name":"a"}]}`: `ports[1].name: Duplicate value: "a"`,
		`{"ports":[{"protocol":"X"}]}`:          `ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`,
		`{"endpoints":[{"addresses":["10.1.1.1"],"hints":{"forZones":[{"name":"a"},{"name":"a"}]}}]}`: `endpoints[0].hints.forZones[1].name: Duplicate value: "a"`,
	} {
		_, err := patch(data)
		expectError(t, err, apierrors.IsInvalid, want)
	}
}

func TestRuntimeClass(t *testing.T) {
	w := newWorld(t)
	classes := w.User.NodeV1().RuntimeClasses()
	c := testcheck.Must(classes.Update(w.Context(), // an update creates it
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Handler: "runsc"}, metav1.UpdateOptions{}))
	c.Handler = "other"
	_, err := classes.Update(w.Context(), c, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsInvalid, `handler: Invalid value: "other": field is immutable`)
	_, err = classes.Create(w.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
	expectError(t, err, apierrors.IsInvalid, "handler: Required value")
}

func TestPodTemplate(t *testing.T) {
	w := newWorld(t)
	templates := w.User.CoreV1().PodTemplates("default")
	p := testcheck.Must(templates.Create(w.Context(), &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Template: corev1.PodTemplateSpec{Spec: newPod("p").Spec},
	}, metav1.CreateOptions{}))
	expect(t, p.Generation, int64(1))
	expect(t, p.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	p.Template.Labels = map[string]string{"a": "b"}
	p = testcheck.Must(templates.Update(w.Context(), p, metav1.UpdateOptions{}))
	expect(t, p.Generation, int64(2))
	_, err := templates.Create(w.Context(), &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "q"}}, metav1.CreateOptions{})
	expectError(t, err, apierrors.IsInvalid, "template.spec.containers: Required value")
}

func TestFlowControl(t *testing.T) {
	w := newWorld(t)
	levels := w.User.FlowcontrolV1().PriorityLevelConfigurations()
	l := testcheck.Must(levels.Create(w.Context(), &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "l"},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{
				Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{},
			}},
		},
	}, metav1.CreateOptions{}))
	expect(t, *l.Spec.Limited.NominalConcurrencyShares, int32(30))
	expect(t, *l.Spec.Limited.LimitResponse.Queuing,
		flowcontrolv1.QueuingConfiguration{Queues: 64, HandSize: 8, QueueLengthLimit: 50})
	flows := w.User.FlowcontrolV1().FlowSchemas()
	f := testcheck.Must(flows.Create(w.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "f"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "l"},
		},
	}, metav1.CreateOptions{}))
	expect(t, f.Spec.MatchingPrecedence, int32(1000))
	f.Spec.MatchingPrecedence = 20_000
	_, err := flows.Update(w.Context(), f, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsInvalid, "spec.matchingPrecedence: Invalid value: 20000: must not be greater than 10000")
}

// Resources that generic clients list are served.
func TestGenericResources(t *testing.T) {
	w := newWorld(t)
	var all []string
	for _, r := range w.Server.Resources() {
		all = append(all, r.Name+"."+r.Group)
	}
	for _, name := range []string{
		"podtemplates.", "endpointslices.discovery.k8s.io", "runtimeclasses.node.k8s.io", "priorityclasses.scheduling.k8s.io",
		"flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	} {
		if !slices.Contains(all, name) {
			t.Errorf("%s is not served", name)
		}
	}
}
