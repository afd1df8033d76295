package hostports_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/hostports"
)

func pod(ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b", Ports: ports}}}}
}

// TestConflict has the rows of upstream's TestHostPortInfo_Check.
func TestConflict(t *testing.T) {
	port := func(address string, protocol corev1.Protocol, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{HostIP: address, Protocol: protocol, HostPort: number, ContainerPort: 1}
	}
	used := []*corev1.Pod{
		pod(), pod(port("127.0.0.1", "TCP", 79)), pod(port("0.0.0.0", "TCP", 80), port("127.0.0.1", "UDP", 81)), pod(port("", "", 82)),
	}
	for name, test := range map[string]struct {
		wanted corev1.ContainerPort
		want   bool
	}{
		"another port":                {port("0.0.0.0", "TCP", 8080), false},
		"no port":                     {port("", "", 0), false},
		"the same":                    {port("0.0.0.0", "TCP", 80), true},
		"no address, no protocol":     {port("", "", 80), true},
		"another protocol":            {port("", "UDP", 80), false},
		"one address, all are used":   {port("127.0.0.1", "TCP", 80), true},
		"one address, the same":       {port("127.0.0.1", "TCP", 79), true},
		"one address, another":        {port("127.0.0.2", "TCP", 79), false},
		"all addresses, one is used":  {port("", "TCP", 79), true},
		"one address of UDP":          {port("", "UDP", 81), true},
		"used without an address":     {port("10.0.0.1", "TCP", 82), true},
		"used without, as other kind": {port("10.0.0.1", "SCTP", 82), false},
	} {
		if got := hostports.Conflict(pod(test.wanted), slices.Values(used)); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

// TestInitContainers: only a port of an init container that keeps running counts.
func TestInitContainers(t *testing.T) {
	wanted := pod(corev1.ContainerPort{HostPort: 80})
	other := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}}}}}}
	if hostports.Conflict(wanted, slices.Values([]*corev1.Pod{other})) {
		t.Error("the port of an init container that has ended conflicts")
	}
	other.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	if !hostports.Conflict(wanted, slices.Values([]*corev1.Pod{other})) {
		t.Error("the port of a sidecar does not conflict")
	}
}
