package apiserver_test

import (
	"fmt"
	"net/url"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// serviceOf returns what the service default/kubernetes leads to: its target port, and the address
// and the port in its endpoints and in its endpoint slice.
func serviceOf(t *testing.T, s *fake.Server) [3]string {
	t.Helper()
	client, get := s.Client(direct), metav1.GetOptions{}
	service := testcheck.Must(client.CoreV1().Services("default").Get(t.Context(), "kubernetes", get))
	endpoints := testcheck.Must(client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", get))
	slice := testcheck.Must(client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", get))
	return [3]string{
		service.Spec.Ports[0].TargetPort.String(),
		fmt.Sprintf("%s:%d", endpoints.Subsets[0].Addresses[0].IP, endpoints.Subsets[0].Ports[0].Port),
		fmt.Sprintf("%s:%d", slice.Endpoints[0].Addresses[0], *slice.Ports[0].Port),
	}
}

// TestAdvertise checks that the service leads to the port of a listener. Its address is one that
// endpoints can have: not that of a loopback listener.
func TestAdvertise(t *testing.T) {
	for _, tc := range []struct{ listen, address string }{{"127.0.0.1:0", "192.0.2.1"}, {"0.0.0.0:0", ""}} {
		s := newServer()
		before := serviceOf(t, s)
		testcheck.Equal(t, "in memory", [3]string{"6443", "192.0.2.1:6443", "192.0.2.1:6443"}, before)
		l := testcheck.Must(apiserver.Listen(apiserver.ListenConfig{Handler: newHandler(s), Addr: tc.listen}))
		defer func() { testcheck.NoError(t, l.Close()) }()
		testcheck.Equal(t, "without Advertise", before, serviceOf(t, s))
		testcheck.NoError(t, l.Advertise(t.Context(), s.Client(direct)))
		port, got := testcheck.Must(url.Parse(l.URL())).Port(), serviceOf(t, s)
		if tc.address != "" {
			testcheck.Equal(t, tc.listen, [3]string{port, tc.address + ":" + port, tc.address + ":" + port}, got)
		}
		if got[0] != port || got[1] != got[2] {
			t.Errorf("%s: the service leads to %q; want port %s", tc.listen, got, port)
		}
		revision := s.Revision()
		testcheck.NoError(t, l.Advertise(t.Context(), s.Client(direct)))
		testcheck.Equal(t, "revision", revision, s.Revision())
	}
}

// TestAdvertiseWithoutTheService uses a server without the objects of a real server.
func TestAdvertiseWithoutTheService(t *testing.T) {
	s := fake.NewServer(fake.Config{Now: sim.DirectCaller().Now, SkipBootstrap: true})
	l := listen(t)
	testcheck.NoError(t, l.Advertise(t.Context(), s.Client(direct)))
	if n := s.Count("services") + s.Count("endpoints") + s.Count("endpointslices"); n != 0 {
		t.Errorf("%d objects", n)
	}
}
