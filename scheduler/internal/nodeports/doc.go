// Package nodeports keeps pods from nodes on which the ports that they ask for are in use.
//
// Upstream: pkg/scheduler/framework/plugins/nodeports (v1.36).
package nodeports
