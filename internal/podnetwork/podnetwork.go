package podnetwork

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// nodesMax is the number of nodes with addresses: the networks of pods are in 10.244.0.0 to 10.255.255.255.
const nodesMax = 12<<8 - 1

// Of returns the address of the i-th node, counted from 0, and the network of its pods; zero values if there are too many
// nodes.
func Of(i int) (node netip.Addr, pods netip.Prefix) {
	if i >= nodesMax {
		return netip.Addr{}, netip.Prefix{}
	}
	high, low := byte((i+1)>>8), byte(i+1) //nolint:gosec // at most nodesMax
	return netip.AddrFrom4([4]byte{10, 243, high, low}), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244 + high, low, 0}), 24)
}

// NodeAddresses returns the addresses of a node in its status; none without an address.
//
// Upstream: pkg/kubelet/nodestatus NodeAddress (v1.36).
func NodeAddresses(name string, address netip.Addr) []corev1.NodeAddress {
	if !address.IsValid() {
		return nil
	}
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: address.String()}, {Type: corev1.NodeHostName, Address: name},
	}
}
