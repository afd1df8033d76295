// Package upstreamad runs the attach/detach controller of kube-controller-manager itself, k8s.io/kubernetes 1.36.3, over any
// client: to compare ours with, and to measure ours beside.
package upstreamad
