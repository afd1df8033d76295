package fake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// The service default/kubernetes exists from the start, with its endpoints, as upstream's tests
// expect. It takes no revision, and another service does not get its address.
func TestServiceOfTheServer(t *testing.T) {
	w := newWorld(t)
	services := w.User.CoreV1().Services("default")
	s := testcheck.Must(services.Get(w.Context(), "kubernetes", metav1.GetOptions{}))
	expect(t, s.Labels, map[string]string{"component": "apiserver", "provider": "kubernetes"})
	expect(t, s.Spec.ClusterIP, "10.96.0.1")
	expect(t, s.Spec.ClusterIPs, []string{"10.96.0.1"})
	expect(t, s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	expect(t, len(s.Spec.Ports), 1)
	expect(t, s.Spec.Ports[0].Name+" "+s.Spec.Ports[0].TargetPort.String(), "https 6443")
	expect(t, s.ResourceVersion, "4") // that of the last namespace
	e := testcheck.Must(w.User.CoreV1().Endpoints("default").Get(w.Context(), "kubernetes", metav1.GetOptions{}))
	expect(t, e.Subsets[0].Ports[0].Port, int32(6443))
	list := testcheck.Must(w.User.DiscoveryV1().EndpointSlices("default").List(w.Context(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"}))
	expect(t, len(list.Items), 1)
	expect(t, list.Items[0].Endpoints[0].Addresses[0], e.Subsets[0].Addresses[0].IP)

	other := testcheck.Must(services.Create(w.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))
	expect(t, other.Spec.ClusterIP, "10.96.0.2")
	// the server's objects are valid: an update without changes keeps them
	again := testcheck.Must(services.Update(w.Context(), s, metav1.UpdateOptions{}))
	expect(t, again.ResourceVersion, s.ResourceVersion)

	bare := fake.NewServer(fake.Config{Now: sim.DirectCaller().Now, SkipBootstrap: true})
	expect(t, len(bare.List("services"))+len(bare.List("priorityclasses"))+len(bare.List("flowschemas")), 0)
}

// The objects that the real server creates when it starts can be written back unchanged.
func TestObjectsOfTheServerAreValid(t *testing.T) {
	w := newWorld(t)
	for _, resource := range []string{
		"services", "endpoints", "endpointslices", "priorityclasses", "prioritylevelconfigurations", "flowschemas",
	} {
		for _, obj := range w.Server.List(resource) {
			r, _ := w.Server.Resource(resource)
			gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
			c, _ := w.User.Resource(gvr, obj.GetNamespace())
			done, err := c.Update(w.Context(), obj.GetName(), obj.DeepCopyObject().(fake.Object), metav1.UpdateOptions{})
			if err != nil {
				t.Errorf("%s %s: %v", resource, obj.GetName(), err)
				continue
			}
			expect(t, done.Object.GetResourceVersion(), obj.GetResourceVersion())
		}
	}
}
