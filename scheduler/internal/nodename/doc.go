// Package nodename keeps a pod that names a node from the others.
//
// Upstream: pkg/scheduler/framework/plugins/nodename (v1.36).
package nodename
