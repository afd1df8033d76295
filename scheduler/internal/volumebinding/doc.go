// Package volumebinding decides whether a pod's claims can be used on a node, and binds those that are
// not bound yet.
//
//	plugin := volumebinding.New(handle, volumebinding.Args{})
//	plugin.OnWake(func(pod *corev1.Pod) { … }) // call PreBind of the pod again
//
// A claim that is bound needs a volume that the node can use. A claim that waits for its first consumer
// gets the smallest existing volume that fits on the node; otherwise a volume is provisioned for the node,
// if the class allows it and, for drivers that publish their capacity, if there is enough of it.
//
// Filter decides this for one node (find.go, capacity.go). Reserve assumes the changes: from then on other
// pods see the volume as bound to the claim, and the claim as one for the node (assumecache.go). PreBind writes
// them, one request at a time: volumes first, then claims. It then waits by watch until all claims are
// bound (prebind.go), or until that cannot happen any more, or for [Args].BindTimeout. What belongs to
// one pod is in its cycle, so any number of pods may be in flight.
//
// A version that this plugin wrote is used until the cache has it or a later one. That also holds if the
// rest failed: the next attempt does not act on a stale claim.
//
// The time limit is a heartbeat of the process (see sim.QueueConfig): in a stepped world it ends when time
// passes anyway. The world comes to rest with a pod whose volume is never provisioned.
//
// # What it does not do
//
// It does not check the arguments; the file from which they come is checked by its reader.
//
// Upstream: pkg/scheduler/framework/plugins/volumebinding (v1.36).
package volumebinding
