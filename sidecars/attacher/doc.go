// Package attacher is the external-attacher of one CSI driver: it attaches and detaches volumes as
// VolumeAttachment objects request.
//
//	process := host.Process("attacher")
//	attacher.New(attacher.Config{
//		Process: process, Client: client, Informers: factory,
//		DriverName: "disk.example.com", Conn: csi.Suspend(process, "disk.example.com", conn),
//	})
//
// A VolumeAttachment becomes a ControllerPublishVolume call, whose answer is written to the
// object's status. A deleted one becomes ControllerUnpublishVolume. A finalizer on the
// VolumeAttachment keeps it until the volume is detached. A finalizer on the PersistentVolume keeps
// that while any VolumeAttachment names it. For a driver without PUBLISH_UNPUBLISH_VOLUME, every
// VolumeAttachment is marked as attached without a call.
//
// What it does not do: the periodic comparison with the driver's list of volumes, secrets,
// migration from in-tree plugins, leader election, and timeouts of driver calls.
//
// Upstream: external-attacher 4.13.0.
package attacher
