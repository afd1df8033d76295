package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestServiceVariables are the variables of two services.
//
// Upstream: pkg/kubelet/envvars TestFromServices (v1.36).
func TestServiceVariables(t *testing.T) {
	t.Parallel()
	got := serviceVariables([]*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "foo-bar"}, Spec: corev1.ServiceSpec{ClusterIP: "1.2.3.4", Ports: []corev1.ServicePort{
			{Port: 8080, Protocol: corev1.ProtocolTCP},
		}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "q-u"}, Spec: corev1.ServiceSpec{ClusterIP: "2001:db8::1", Ports: []corev1.ServicePort{
			{Name: "u-d-p", Port: 8081, Protocol: corev1.ProtocolUDP}, {Name: "t-c-p", Port: 8082},
		}}},
	}).list()
	testcheck.Equal(t, "variables", []string{
		"FOO_BAR_SERVICE_HOST=1.2.3.4",
		"FOO_BAR_SERVICE_PORT=8080",
		"FOO_BAR_PORT=tcp://1.2.3.4:8080",
		"FOO_BAR_PORT_8080_TCP=tcp://1.2.3.4:8080",
		"FOO_BAR_PORT_8080_TCP_PROTO=tcp",
		"FOO_BAR_PORT_8080_TCP_PORT=8080",
		"FOO_BAR_PORT_8080_TCP_ADDR=1.2.3.4",
		"Q_U_SERVICE_HOST=2001:db8::1",
		"Q_U_SERVICE_PORT=8081",
		"Q_U_SERVICE_PORT_U_D_P=8081",
		"Q_U_SERVICE_PORT_T_C_P=8082",
		"Q_U_PORT=udp://[2001:db8::1]:8081",
		"Q_U_PORT_8081_UDP=udp://[2001:db8::1]:8081",
		"Q_U_PORT_8081_UDP_PROTO=udp",
		"Q_U_PORT_8081_UDP_PORT=8081",
		"Q_U_PORT_8081_UDP_ADDR=2001:db8::1",
		"Q_U_PORT_8082_TCP=tcp://[2001:db8::1]:8082",
		"Q_U_PORT_8082_TCP_PROTO=tcp",
		"Q_U_PORT_8082_TCP_PORT=8082",
		"Q_U_PORT_8082_TCP_ADDR=2001:db8::1",
	}, got)
}
