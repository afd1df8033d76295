// Package csi is the control plane's side of the Container Storage Interface: the volume plugin
// "kubernetes.io/csi" of the attach/detach controller and the kubelets, the registration of a
// driver with a node, and the connections to a driver.
//
//	plugin := csi.New(csi.Config{
//		Process: process, Client: client, CSIDrivers: informers.Storage().V1().CSIDrivers(),
//		Attachments: informers.Storage().V1().VolumeAttachments(),
//	})
//	_, err := plugin.Attach(ctx, &plugins.Spec{PersistentVolume: volume}, "node-1")
//
// The volumes are PersistentVolumes, or inline volumes of pods, which live as long as their pod.
//
// A [Plugin] attaches a volume by creating a VolumeAttachment and waiting for its status, which an
// attacher updates. An object of that name that belongs to something else is an error
// ([ErrForeignAttachment]). It mounts a volume by NodeStageVolume and NodePublishVolume, with the
// secrets, pod attributes, tokens and SELinux label that the driver requests. It changes the files'
// group if the driver does not. It records what it needs to undo a mount in vol_data.json next to
// the mount, and classifies each error by whether the call may still have had its effect. One
// Plugin serves one process.
//
// A driver is reached over a [grpc.ClientConnInterface]. [Serve] runs it as a real gRPC server
// behind an in-memory listener. [Direct] calls its methods directly, as the stepped host requires.
// [Suspend] wraps either, so that each call leaves the calling process and is recorded.
//
// What it does not do: relabel the files of a volume that was not mounted with a label, which is
// the container runtime's work, and export metrics.
//
// Upstream: pkg/volume/csi.
package csi
