// Package pvcontroller is the PersistentVolume controller: it binds claims to volumes, and reclaims
// volumes whose claim was deleted.
//
//	process := host.Process("persistentvolume")
//	pvcontroller.New(pvcontroller.Config{
//		Process: process, Client: client, Informers: factory,
//		Recorder: recorder, // of pvcontroller.EventSource
//	})
//
// There are two queues, "claims" and "volumes", with one worker each. A worker takes a key, gathers
// the facts about the object, calls a pure function that decides (decideClaim, decideVolume), and
// applies the decision with as few writes as possible. A binding takes four writes in a fixed
// order: the volume's claimRef, the volume's phase, the claim's volumeName, the claim's status.
// Each write may fail or conflict. The key is then queued again after its back-off, and the
// decision is repeated from the state of the API server. Nothing is rolled back, because the
// controller can continue from every intermediate state.
//
// The controller keeps the newest known version of every claim and volume in its own caches. They
// are ahead of the informers by the controller's own writes; see versions. Free volumes are indexed
// by everything that a claim can request, including labels, so that a match searches a tree instead
// of all volumes; see pool. Claims that wait for a volume are indexed in the same way; see
// claimIndex.
//
// Differs: upstream finds most of its work in a resync every 15 s. Here every change that may allow
// progress queues the affected objects (requeue.go), so a world without work is at rest. The resync
// remains as a background timer. For unchanged objects it writes nothing and sends no request. An
// event that repeats the last event about an object is not sent again.
//
// Plugin calls (provision, delete, recycle) run as operations outside the syncs: one at a time for
// each claim or volume, with back-off; see operations.go. Before it destroys anything, an operation
// decides again from the state of the API server, and it deletes with the UID as precondition. A
// provisioned volume whose PersistentVolume cannot be created is retried every 10 s (save.go). If
// the controller crashes meanwhile, the plugin finds the volume again by its name.
//
// A sync first updates the annotations and finalizers that state which program manages the object:
// a plugin, or the CSI driver to which the plugin was migrated (metadata.go).
//
// What it does not do: it has no metrics.
//
// Upstream: pkg/controller/volume/persistentvolume (v1.36.3).
package pvcontroller
