// Package tainteviction deletes the pods of nodes with taints of effect NoExecute that the pods do not
// tolerate.
//
//	tainteviction.New(tainteviction.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// A pod that does not tolerate all such taints of its Node is evicted at once. One that tolerates them
// for a limited time is evicted after the shortest tolerationSeconds. It is marked with the condition
// DisruptionTarget, reason DeletionByTaintManager, and deleted with its own grace period. Its kubelet
// ends it; on a lost node it stays terminating.
//
// # The model
//
// One queue has the keys of pods. A change of a pod, or of the taints of its Node, adds it. decide is a
// pure function of a pod's tolerations, its Node's taints and the eviction that is scheduled for it.
// The time of a scheduled eviction is the time of a key in the same queue. When it comes, the pod is
// decided about again, from the caches. So an eviction that has been cancelled in between does not take
// place, and there is no order between node and pod events to observe.
//
// A pod for which an eviction is scheduled keeps its time, also if its tolerations or the taints
// change, as upstream. If all taints go, the eviction is cancelled, and the next one begins to count
// again.
//
// # What it does not do
//
// No metrics. Evictions are not limited in rate: what taints many nodes must do that, as
// controllers/nodelifecycle does.
//
// Upstream: pkg/controller/tainteviction (v1.36.3).
package tainteviction
