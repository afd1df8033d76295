// Package nodelifecycle declares nodes dead that no longer report, and taints them.
//
//	nodelifecycle.New(nodelifecycle.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// A node reports by renewing its Lease or by updating its condition Ready. If it does neither for 50 s,
// the controller sets its conditions to Unknown, and the condition Ready of its pods to False. A node
// that is not ready gets the taint node.kubernetes.io/not-ready or unreachable with effect NoExecute,
// for which controllers/tainteviction evicts its pods. In each zone one node is tainted every 10 s; in
// a zone that is disrupted fewer are, or none. If no node of any zone is ready, the fault is not that
// of the nodes: the taints are removed, and none is added.
//
// The controller also gives nodes the NoSchedule taints of their conditions and of
// spec.unschedulable, and keeps the beta labels of operating system and architecture.
//
// # The model
//
// Four queues have one worker each. The first has the names of nodes; health.go decides from a node
// and its Lease whether the node has expired, taints.go which taints it must have. The second has the
// deadlines of nodes: when one comes, the node is added to the first. The third has zones with nodes to
// taint (zones.go); its keys wait as long as the rate of the zone demands. The last has pods that were
// bound to a node that was not ready (pods.go).
//
// Upstream's controller looks at all nodes every 5 s. This one has a deadline for each node, so a node
// is declared dead 50 s after its last report, rather than up to 5 s later. On a stepped host the
// deadlines are watchdogs of the kubelets' heartbeats: no time passes for them while the kubelet
// renews its Lease. So a world with healthy nodes comes to rest, and one with a dead node does so after
// the node was declared dead.
//
// # What it does not do
//
// No metrics. With [Config.LeasedOnly], nodes that never had a Lease are left alone.
//
// Upstream: pkg/controller/nodelifecycle, pkg/controller/nodelifecycle/scheduler,
// pkg/controller/util/node (v1.36.3).
package nodelifecycle
