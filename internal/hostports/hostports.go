package hostports

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// allAddresses is the address of a port that asks for none.
const allAddresses = "0.0.0.0"

// Conflict reports whether a pod asks for a port of its node that one of the others has. A port
// without an address conflicts with the same port of any address.
func Conflict(pod *corev1.Pod, others iter.Seq[*corev1.Pod]) bool {
	if !Any(pod) {
		return false
	}
	for other := range others {
		for used := range of(other) {
			for wanted := range of(pod) {
				if conflicts(wanted, used) {
					return true
				}
			}
		}
	}
	return false
}

// Any reports whether a pod asks for ports of its node.
func Any(pod *corev1.Pod) bool {
	for range of(pod) {
		return true
	}
	return false
}

// of returns the ports of the node that a pod asks for: those of containers that run as long as the
// pod does.
func of(pod *corev1.Pod) iter.Seq[*corev1.ContainerPort] {
	return func(yield func(*corev1.ContainerPort) bool) {
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && !yieldPorts(c, yield) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yieldPorts(&pod.Spec.Containers[i], yield) {
				return
			}
		}
	}
}

func yieldPorts(c *corev1.Container, yield func(*corev1.ContainerPort) bool) bool {
	for i := range c.Ports {
		if c.Ports[i].HostPort > 0 && !yield(&c.Ports[i]) {
			return false
		}
	}
	return true
}

func conflicts(a, b *corev1.ContainerPort) bool {
	addresses := []string{cmp.Or(a.HostIP, allAddresses), cmp.Or(b.HostIP, allAddresses)}
	return a.HostPort == b.HostPort &&
		cmp.Or(a.Protocol, corev1.ProtocolTCP) == cmp.Or(b.Protocol, corev1.ProtocolTCP) &&
		(addresses[0] == addresses[1] || slices.Contains(addresses, allAddresses))
}
