// Package nodeaffinity decides which nodes the node selector and the node affinity of a pod select.
//
// Upstream: pkg/scheduler/framework/plugins/nodeaffinity (v1.36).
package nodeaffinity
