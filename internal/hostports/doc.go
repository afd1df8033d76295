// Package hostports decides whether pods can run on one node with the ports of the node that they
// ask for.
//
// Upstream: k8s.io/kube-scheduler/framework HostPortInfo, pkg/scheduler/util GetHostPorts (v1.36).
package hostports
