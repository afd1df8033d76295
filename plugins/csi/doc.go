// Package csi is the control plane's side of the Container Storage Interface: the volume plugin "kubernetes.io/csi" that
// the attach/detach controller and the kubelets use, the registration of a driver with a node, and the ways to reach a
// driver.
//
// The volumes are PersistentVolumes, or are written out in a pod and live as long as it does (inline, ephemeral ones).
//
// [Plugin] turns attaching into a VolumeAttachment object and a wait for its status, which an attacher fills in; one that has
// its name and is of something else it takes for none of its own ([ErrForeignAttachment]). It turns mounting into
// NodeStageVolume and NodePublishVolume, with the secrets, the words about the pod, the tokens and the SELinux label that the
// driver is to have, gives the files to the pod's group where the driver does not, keeps what it needs to undo them in
// vol_data.json beside each mount, and says of each error whether the call may still have had its effect. One Plugin serves one
// process.
//
// A driver is reached over a [grpc.ClientConnInterface]: [Serve] runs it as a real gRPC server behind an in-memory
// listener, [Direct] calls its methods on the spot, as the stepped host needs it, and [Suspend] wraps either so that each
// call leaves the component that makes it and is recorded.
//
// Not here: relabelling the files of a volume that was not mounted with a label, which is the container runtime's work; metrics.
//
// Upstream: pkg/volume/csi.
package csi
