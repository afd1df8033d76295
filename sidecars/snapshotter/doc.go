// Package snapshotter is the csi-snapshotter of one CSI driver: it takes and removes the snapshots of
// VolumeSnapshotContents and VolumeGroupSnapshotContents.
//
//	process := host.Process("snapshotter")
//	_, err := snapshotter.New(snapshotter.Config{
//		Process: process, Client: client, Dynamic: client.Dynamic(), Informers: factory, Recorder: recorder,
//		DriverName: "disk.example.com", Conn: csi.Suspend(process, "disk.example.com", conn),
//	})
//
// Contents are created by the snapshot controller, or by an administrator for snapshots that exist. The
// snapshotter calls the driver until a snapshot is ready to use, and writes into the content's status
// what the driver reports. Before it requests a snapshot, it annotates the content. The annotation is
// removed when the driver has answered with success or with a final error. A content is not removed
// before, so no snapshot is leaked: the same request, by name, is repeated until its result is known.
//
// The snapshots of a group are taken by one request. Their contents are created by the snapshot
// controller from the status of the group's content.
//
// What it does not do: leader election, timeouts of driver calls, and node deployment. A driver without
// CREATE_DELETE_SNAPSHOT is left alone.
//
// Upstream: external-snapshotter pkg/sidecar-controller (8.7.0).
package snapshotter
