// Package snapdiff compares our snapshot controller and snapshotter with upstream's, external-snapshotter
// 8.7.0 pkg/common-controller and pkg/sidecar-controller. Its tests draw histories, execute each in two
// worlds, and compare the worlds.
//
// A history is a list of steps about a few claims, classes, snapshots and contents, and one driver. Claims
// are bound to volumes of the driver, of another one, or of none; some restore from a snapshot. Classes are
// defaults or not, and may name secrets. Snapshots are taken of claims, or have contents that users create.
// Users delete anything at any time, and change deletion policies. The driver answers a kind of call with an
// error, before or after its effect, and takes its time until snapshots are ready to use. The controllers
// restart, and one kind of their requests may fail for a while.
//
// After each step, which takes 100 s, these must be the same: snapshots and contents with status,
// finalizers, annotations and references; the finalizers of claims; the driver's snapshots; and the set of
// events.
//
// What it does not do: the times of errors and snapshots are not compared. Claims are bound by users.
package snapdiff
