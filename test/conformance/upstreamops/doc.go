// Package upstreamops executes the histories of our executor with upstream's, k8s.io/kubernetes
// 1.36.3 pkg/volume/util/nestedpendingoperations. The histories list every difference; there are no
// others.
package upstreamops
