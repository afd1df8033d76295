// Package restorediff compares how our provisioner makes volumes from snapshots and from other volumes with
// upstream's, external-provisioner 6.3.0 pkg/controller with sig-storage-lib-external-provisioner 13. Its tests
// draw histories, execute each in two worlds, and compare the worlds.
//
// A history is a list of steps about two claims, a source claim, a snapshot, and one driver. Claims are made
// from a snapshot, from a claim, or from nothing, with the size of the source, a smaller or a larger one, and
// another volume mode. Snapshots are of this driver or of another one, not ready, unbound, deleted, or lack
// their content. Claims and sources are deleted at any time. The driver answers with an error, before or after
// its effect. The controllers restart, and one kind of their requests may fail for a while.
//
// After each step, which takes 100 s, these must be the same: claims and volumes with their finalizers and
// annotations, the finalizers of snapshots, the driver's volumes with their sources, and the set of events.
//
// What it does not do: times are not compared. Users create snapshots with their status, and bind claims.
package restorediff
