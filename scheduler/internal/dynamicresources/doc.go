// Package dynamicresources says what upstream's plugin says about pods without ResourceClaims: a part of
// the message about each pod that fits nowhere.
//
// What it does not do: it allocates no devices. Pods with ResourceClaims are scheduled as if they had none.
//
// Upstream: pkg/scheduler/framework/plugins/dynamicresources PreFilter, PostFilter (v1.36).
package dynamicresources
