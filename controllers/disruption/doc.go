// Package disruption keeps the status of PodDisruptionBudgets.
//
//	disruption.New(disruption.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//		Dynamic: server.Client(process).Dynamic(), Discover: server.Client(process).ServerPreferredNamespacedResources,
//		Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// The API server evicts a pod only if the status of its budget allows a disruption. The controller
// counts the pods that a budget selects and how many are ready, and writes how many may be disrupted:
// as many as are ready beyond what is desired. How many pods there should be is the scale of their
// controllers. A pod that is being evicted is in status.disruptedPods, and does not count as healthy,
// until the controller has seen its deletion. If it is not deleted within two minutes it counts again.
//
// The controller also resets the condition DisruptionTarget of pods that were not deleted.
//
// # What it does not do
//
// It counts pods in its caches. A pod that has become unready, and that the cache has not seen yet,
// still allows a disruption. Upstream's controller has the same race.
//
// Upstream: pkg/controller/disruption (v1.36.3).
package disruption
