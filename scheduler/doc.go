// Package scheduler assigns pods to nodes, and selects the nodes for which delayed volumes are
// provisioned.
//
//	scheduler.New(scheduler.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// It is a minimal scheduler for the life cycle of volumes. It chooses the first feasible node by
// name. A node's feasibility depends on readiness, taints, node selector, node affinity and
// volumes. A pod whose claims are bound is assigned at once. For claims that wait for their first
// consumer, the scheduler writes the selected node on the claims, and assigns the pod when all of
// them are bound. It waits for that by watch, and handles other pods meanwhile. From the decision
// on, the pod is assumed to be on its node, although the cache does not show it yet.
//
// Decisions are functions of API objects (claims.go, fit.go, nodes.go). A placement carries a
// decision out, one API request at a time (placement.go).
//
// # What it does not do
//
//   - Matching existing PersistentVolumes to claims that wait for their first consumer. The
//     PersistentVolume controller still binds a claim that a volume's claimRef names.
//   - CSIStorageCapacity, and zones in volumes' labels.
//   - Resources, ports, inter-pod affinity, topology spread, priorities and preemption.
//   - The timeout of 10 minutes for binding claims, and its event.
//
// Upstream: kube-scheduler v1.36, plugins VolumeBinding, VolumeRestrictions, NodeVolumeLimits,
// NodeAffinity, NodeUnschedulable, TaintToleration, DefaultBinder.
package scheduler
