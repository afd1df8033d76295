// Package upstreamvm runs the volume manager of a kubelet itself, k8s.io/kubernetes 1.36.3, over any client: to compare ours
// with, and to measure ours beside.
package upstreamvm
