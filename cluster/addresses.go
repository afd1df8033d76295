package cluster

import "net/netip"

// addressedNodes is the number of nodes that have addresses: the networks of pods are below 10.244.0.0 to 10.255.0.0.
const addressedNodes = 11 << 8

// addressesOf returns the address of the i-th node, counted from 0, and the network of its pods: for node-1 10.243.0.1 and
// 10.244.1.0/24. They are names only: nothing answers there. Only nodes whose containers run have them.
//
// Upstream: kubeadm's default of the network of pods with Flannel is 10.244.0.0/16.
func addressesOf(i int) (node netip.Addr, pods netip.Prefix) {
	n := i + 1
	if n >= addressedNodes {
		return netip.Addr{}, netip.Prefix{}
	}
	high, low := byte(n>>8), byte(n) //nolint:gosec // below addressedNodes
	return netip.AddrFrom4([4]byte{10, 243, high, low}), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244 + high, low, 0}), 24)
}
