// Package framework has the types that the scheduler and its plugins share: what is known of nodes and
// pods, the interfaces of plugins, and why a pod does not fit.
//
// A Cache has a NodeInfo for each node, with the pods that are on the node or assumed to be. The decision about
// a pod is a Cycle on a Snapshot of the cache. A NodeInfo and a PodInfo are not changed after they were
// made, so the decision may be suspended while an extender is asked. The plugins run one after the other:
//
//	PreFilter   looks at the pod; may reject it, name nodes, or have nothing to do (Skip)
//	Filter      says whether a node can run the pod
//	PostFilter  looks for pods to preempt if no node can
//	PreScore    looks at the nodes that can
//	Score       ranks them
//	Reserve     takes what the pod needs on the node, in memory
//	PreBind     writes it to the API server
//
// A pod that fits nowhere waits until an Event occurs that a plugin that rejected it takes an interest in.
//
// Upstream: k8s.io/kube-scheduler/framework, pkg/scheduler/framework, pkg/scheduler/backend/cache (v1.36).
//
// Differs: plugins run one after the other, and nodes have an order: zones take turns, by name, with
// their nodes by name. Upstream takes both in the order in which it saw them.
package framework
