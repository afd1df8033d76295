// Package podgc deletes pods that no kubelet will ever end.
//
//	podgc.New(podgc.Config{Process: process, Client: client, Informers: informers})
//	host.Run() // or host.Start, on a live host
//
// The controller removes, at once and with phase Failed:
//
//   - the pods of a Node that does not exist. They are quarantined for 40 s, and a live read must not
//     find the Node. They get the condition DisruptionTarget with reason DeletionByPodGC.
//   - terminating pods of a Node that is not ready and has the taint node.kubernetes.io/out-of-service
//   - terminating pods that have no Node
//   - the oldest finished pods above a threshold. Pods that a kubelet evicted come first.
//
// # The model
//
// One queue has pods, one has the names of missing Nodes. A change in a cache adds the pods that it
// may concern, and one worker decides from the caches what a pod is. It removes a pod of the second
// or third kind. It quarantines the Node of a pod of the first kind: the name is added to the other
// queue for later, and is cancelled if the Node appears.
//
// Upstream's controller looks at all pods every 20 s instead. This one has no periodic work, so an
// idle world stays at rest; [Concerns] filters the changes that it must see.
//
// # What it does not do
//
// No metrics, and no controller of its own for each kind of pod.
//
// Upstream: pkg/controller/podgc (v1.36.3).
package podgc
