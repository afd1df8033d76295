// Package tainttoleration keeps pods from nodes with taints that they do not tolerate.
//
// Upstream: pkg/scheduler/framework/plugins/tainttoleration (v1.36).
//
// Differs: a node that is not ready counts as tainted, even before a controller adds the taint; see
// framework.UntoleratedTaint. The operators Lt and Gt of tolerations, an alpha feature, do not exist.
package tainttoleration
