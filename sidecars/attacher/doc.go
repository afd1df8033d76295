// Package attacher is the external-attacher of one CSI driver: it attaches and detaches volumes as VolumeAttachment
// objects ask.
//
// A VolumeAttachment becomes a ControllerPublishVolume call, whose answer goes into the object's status; one that is being
// deleted becomes ControllerUnpublishVolume. A finalizer on the VolumeAttachment keeps it until the volume is detached, and
// a finalizer on the PersistentVolume keeps that while any VolumeAttachment names it. For a driver that does not publish
// volumes, every VolumeAttachment is marked as attached, and that is all.
//
// Not here: comparing the attachments with the driver's own list every minute, secrets, migration from in-tree plugins,
// leader election, and the time limit of a driver call.
//
// Upstream: external-attacher 4.13.0.
package attacher
