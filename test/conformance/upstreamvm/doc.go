// Package upstreamvm runs upstream's volume manager, k8s.io/kubernetes 1.36.3, on any client, for
// comparisons and benchmarks.
package upstreamvm
