package kubelet

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// podAddress returns the address of a pod whose containers may run: the one that it has or, from then on, the lowest one of the
// node's network that no other pod has. The network's first address is that of its router. "" means that there is none.
//
// Upstream: the plugin host-local of the CNI project, which does not reuse an address at once.
func (k *Kubelet) podAddress(pod *corev1.Pod) string {
	switch {
	case !k.cfg.PodNetwork.IsValid():
		return ""
	case pod.Spec.HostNetwork:
		return k.cfg.Address.String()
	case pod.Status.PodIP != "":
		return pod.Status.PodIP
	case k.addresses[pod.UID].IsValid():
		return k.addresses[pod.UID].String()
	}
	used := map[netip.Addr]bool{}
	for uid, other := range k.known {
		if finished(other) {
			continue
		}
		if address, err := netip.ParseAddr(other.Status.PodIP); err == nil {
			used[address] = true
		}
		used[k.addresses[uid]] = true
	}
	router := k.cfg.PodNetwork.Masked().Addr().Next()
	for address := router.Next(); k.cfg.PodNetwork.Contains(address.Next()); address = address.Next() { // the last one is for broadcasts
		if !used[address] {
			k.addresses[pod.UID] = address
			return address.String()
		}
	}
	return ""
}

// setAddresses sets the addresses in the status of a pod with containers in a state. A pod keeps its address when it has
// ended.
//
// Upstream: pkg/kubelet generateAPIPodStatus (v1.36).
func (k *Kubelet) setAddresses(pod *corev1.Pod, s *corev1.PodStatus, l lifecycle) {
	if !k.cfg.Address.IsValid() {
		return
	}
	s.HostIP = k.cfg.Address.String()
	s.HostIPs = []corev1.HostIP{{IP: s.HostIP}}
	s.PodIP = pod.Status.PodIP
	if l == running {
		s.PodIP = k.podAddress(pod)
	}
	if s.PodIP != "" {
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}
