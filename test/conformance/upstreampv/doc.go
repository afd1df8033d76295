// Package upstreampv runs the PersistentVolume controller of kube-controller-manager itself, k8s.io/kubernetes 1.36.3, over
// any client: to compare ours with.
package upstreampv
