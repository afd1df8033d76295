// Package nodeunschedulable keeps pods from nodes that are cordoned.
//
// Upstream: pkg/scheduler/framework/plugins/nodeunschedulable (v1.36).
package nodeunschedulable
