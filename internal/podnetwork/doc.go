// Package podnetwork has the addresses of nodes, and the networks of their pods. They are names only: nothing answers there.
//
//	node, pods := podnetwork.Of(0) // of node-1: 10.243.0.1 and 10.244.1.0/24
//
// Upstream: kubeadm's usual network of pods with Flannel is 10.244.0.0/16.
package podnetwork
