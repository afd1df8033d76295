// Package upstreamops runs the histories of volsim's executor on upstream's executor,
// k8s.io/kubernetes 1.36.3 pkg/volume/util/nestedpendingoperations. They may differ only where the
// histories say so.
package upstreamops
