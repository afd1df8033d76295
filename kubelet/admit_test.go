package kubelet_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

func podOnPort(name string, port int32) *corev1.Pod {
	pod := cluster.NewPod(name)
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: port}}
	return pod
}

// TestPodWhosePortIsTaken: a pod that is bound to a node fails if another pod there has its port of
// the node, also one that an earlier kubelet started. It does not wait. After the other pod is gone
// the port is free.
func TestPodWhosePortIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createPod(podOnPort("first", 8080))
	w.rest()
	w.createPod(podOnPort("same", 8080))
	w.createPod(podOnPort("another", 8081))
	w.rest()
	for range 2 {
		status := w.pod("same").Status
		testcheck.Equal(t, "phase", corev1.PodFailed, status.Phase)
		testcheck.Equal(t, "reason", "NodePorts", status.Reason)
		const message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		testcheck.Equal(t, "message", "Pod was rejected: "+message, status.Message)
		testcheck.Equal(t, "events", []string{"x1 Warning NodePorts same: " + message}, w.events("NodePorts"))
		testcheck.Equal(t, "life of another", []string{"Pending", "Running main:running ready"}, w.lives["another"])

		testcheck.NoError(t, w.Crash("kubelet(node-1)"))
		w.rest()
	}
	w.createPod(podOnPort("same-again", 8080))
	w.rest()
	testcheck.Equal(t, "phase after the restart", corev1.PodFailed, w.pod("same-again").Status.Phase)
	testcheck.Equal(t, "life of first", []string{"Pending", "Running main:running ready"}, w.lives["first"])

	w.delete("first")
	w.rest()
	w.createPod(podOnPort("later", 8080))
	w.rest()
	testcheck.Equal(t, "life of later", []string{"Pending", "Running main:running ready"}, w.lives["later"])
}
