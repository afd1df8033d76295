// Package nfs is the volume plugin "kubernetes.io/nfs", as kube-controller-manager has it: it recycles what a server exports,
// by a pod (package recycler). It makes and deletes nothing.
//
// Not here: mounting.
//
// Upstream: pkg/volume/nfs (v1.36).
package nfs
