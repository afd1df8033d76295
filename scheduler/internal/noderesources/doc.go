// Package noderesources decides which nodes have the resources that a pod requests, and prefers nodes by
// how much of their resources is in use.
//
// A Fit rejects nodes and ranks them by one of three strategies: LeastAllocated prefers nodes that are mostly
// free, MostAllocated those that are mostly in use, and RequestedToCapacityRatio follows a function of the
// share in use. A BalancedAllocation prefers nodes whose resources are in use to the same share.
//
// Upstream: pkg/scheduler/framework/plugins/noderesources (v1.36).
//
// Differs: a Node that reports no resources has any amount of them, and scores as if all were free. Resources
// of dynamic resource allocation, and placements of groups of pods (alpha), do not exist.
package noderesources
