// Package upstreamops has the histories of our executor happen to the one of upstream, k8s.io/kubernetes 1.36.3
// pkg/volume/util/nestedpendingoperations: they differ in what the histories say, and in nothing else.
package upstreamops
