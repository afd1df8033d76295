// Package interpodaffinity places pods near other pods, or away from them.
//
// Filter applies the required terms of the pod, and the required anti-affinity of the pods on nodes. Score applies
// the preferred terms of both; the required affinity of a pod on a node counts as preferred by that pod.
//
// Upstream: pkg/scheduler/framework/plugins/interpodaffinity (v1.36).
package interpodaffinity
