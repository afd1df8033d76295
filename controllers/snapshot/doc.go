// Package snapshot binds VolumeSnapshots to VolumeSnapshotContents. It is the snapshot-controller, one
// for the snapshots of all CSI drivers.
//
//	err := definitions.InstallText(ctx, server, snapshotapi.Definitions())
//	process := host.Process("snapshotcontroller")
//	err = snapshot.New(snapshot.Config{
//		Process: process, Client: client, Dynamic: client.Dynamic(), Recorder: recorder,
//		Informers: server.Informers(process, snapshot.Filters(caches)...),
//	})
//
// For a snapshot of a claim the controller chooses the default class of the driver if the snapshot
// has none, and creates a content. For an existing content it completes the binding. The csi-snapshotter
// of the driver (package snapshotter) then takes the snapshot, and the controller copies what it
// reports into the status of the VolumeSnapshot. A deleted snapshot takes its content with it, unless
// the deletion policy is Retain.
//
// Finalizers protect the claim while its snapshot is taken, the snapshot while a Pending claim
// restores from it, and the snapshot until its content is gone.
//
// # Retries
//
// A sync that fails because of another object (a class, a claim, a content, a claim that restores) is
// repeated when a cache has a change of such an object, and in the background with back-off: a world in
// which all repetitions fail is at rest. A failed request is repeated with back-off.
//
// # What it does not do
//
// It has no contents for a csi-snapshotter of each node
// (--enable-distributed-snapshotting), no metrics, no resync and no leader election.
//
// Upstream: external-snapshotter pkg/common-controller (8.7.0).
package snapshot
