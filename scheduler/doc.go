// Package scheduler puts pods on nodes, and has their claims' volumes made where the pods will run.
//
// It is the least of a scheduler that the life of volumes needs: the first node by name that fits, by readiness, taints,
// node selector and affinity, and volumes. A pod whose claims are bound is assigned at once. For claims that wait for
// their first consumer, the node is written on the claims, and the pod is assigned when all are bound: it waits by watch,
// and blocks nobody. From the decision on a pod counts as being on its node, though the cache shows it later.
//
// Deciding is in functions over objects (claims.go, fit.go, nodes.go); placement.go carries a decision out, one API
// request at a time.
//
// Not here yet: matching of ready-made PersistentVolumes to claims that wait for their first consumer (a claim that is
// named by a volume's claimRef is bound by the PersistentVolume controller as ever), CSIStorageCapacity,
// zones by label, resources, ports, affinity between pods, topology spread, priorities, preemption, and the limit of
// 10 minutes on waiting for claims. A pod whose claims are never bound waits without an event every 10 minutes.
//
// Upstream: kube-scheduler v1.36, plugins VolumeBinding, VolumeRestrictions, NodeVolumeLimits, NodeAffinity, NodeUnschedulable,
// TaintToleration, DefaultBinder.
package scheduler
