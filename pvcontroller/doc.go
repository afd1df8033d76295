// Package pvcontroller is the PersistentVolume controller: it marries claims to volumes and says what becomes of a volume
// whose claim is gone.
//
// There are two queues, "claims" and "volumes", with one worker each. A worker takes a key, gathers what the controller
// knows into a view, lets a pure function decide (decideClaim, decideVolume), and applies the decision with as few writes
// as it takes. A binding is four writes, always in this order: the volume's claimRef, the volume's phase, the claim's
// volumeName, the claim's status. Each may fail or conflict; then the key comes back after its back-off and everything
// is decided anew from what the API server holds. Nothing is rolled back, because every state in between can be gone on
// from.
//
// The controller keeps the newest version it knows of every claim and volume in caches of its own, which run ahead of
// its informers by its own writes; see versions. Volumes that are free are indexed by what a claim can ask for, labels
// included, so that a match costs a search in a tree and not a walk over all volumes; see pool. So are the claims that
// wait for a volume; see seekers.
//
// Differs: upstream finds most of its work in a resync each 15 s. Here whatever can make a claim or a volume
// take a step queues it (wake.go), so that a world with nothing left to do is settled; the resync remains as a background timer,
// and over unchanged objects it writes nothing and reads nothing live. An event that would only repeat what was last
// said about an object is not sent again.
//
// What plugins do (make, delete and recycle volumes) is done beside the syncs, by operations: one at a time for each claim
// or volume, with a back-off; see operations.go. An operation decides anew from what the API server holds before it destroys
// anything, and presumes the UID when it deletes. A volume that was made and cannot be saved is kept in mind, and tried
// again every 10 s (save.go); the plugin finds it again by its name if the controller was killed meanwhile.
//
// Before anything else a sync puts annotations and finalizers right that say who looks after the object: a plugin, or the CSI
// driver it was migrated to (anneal.go).
//
// Not here: metrics.
//
// Upstream: pkg/controller/volume/persistentvolume (v1.36.3).
package pvcontroller
