package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// addressesOf returns a pod's addresses.
func (w *world) addressesOf(pod string) (node, own string) {
	w.t.Helper()
	s := &w.pod(pod).Status
	if len(s.HostIPs) == 1 && s.HostIPs[0].IP != s.HostIP || len(s.PodIPs) == 1 && s.PodIPs[0].IP != s.PodIP {
		w.t.Errorf("lists differ from the first address: %v, %v", s.HostIPs, s.PodIPs)
	}
	return s.HostIP, s.PodIP
}

// TestAddresses: a pod has an address of its node's network, which another one has after its end.
func TestAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	run := func(name, script string, change ...func(*corev1.Pod)) {
		pod := shellPod(corev1.RestartPolicyNever, "", script)
		pod.Name = name
		for _, f := range change {
			f(pod)
		}
		w.createPod(pod)
		w.pass(5 * time.Second)
	}
	expect := func(pod, want string) {
		t.Helper()
		node, own := w.addressesOf(pod)
		testcheck.Equal(t, pod+": node", "10.243.0.1", node)
		testcheck.Equal(t, pod, want, own)
	}
	run("a", waits)
	run("b", "true")
	run("c", waits)
	run("host", waits, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	expect("a", "10.244.1.2")
	expect("b", "10.244.1.3")
	expect("c", "10.244.1.3")
	expect("host", "10.243.0.1")
	testcheck.NoError(t, w.Stop("kubelet(node-1)"), w.Resume("kubelet(node-1)"))
	run("d", waits)
	expect("a", "10.244.1.2")
	expect("d", "10.244.1.4")
	w.delete("a")
	testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "a"))
	run("e", waits)
	expect("e", "10.244.1.2")
	node, _ := w.Server().Get("nodes", "", "node-1")
	testcheck.Equal(t, "node", []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.243.0.1"}, {Type: corev1.NodeHostName, Address: "node-1"},
	}, node.(*corev1.Node).Status.Addresses)
}

// TestNoAddressesWithoutContainers: nodes and pods have none.
func TestNoAddressesWithoutContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *cluster.Config) { cfg.Containers = cluster.NoContainers })
	w.create("web")
	w.rest()
	node, own := w.addressesOf("web")
	testcheck.Equal(t, "addresses", "", node+own)
}
