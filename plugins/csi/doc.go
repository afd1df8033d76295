// Package csi is the control plane's side of the Container Storage Interface: the volume plugin "kubernetes.io/csi" that
// the attach/detach controller and the kubelets use, the registration of a driver with a node, and the ways to reach a
// driver.
//
// [Plugin] turns attaching into a VolumeAttachment object and a wait for its status, which an attacher fills in; one that has
// its name and is of something else it takes for none of its own ([ErrOthersAttachment]). It turns mounting into
// NodeStageVolume and NodePublishVolume, keeps what it needs to undo them in vol_data.json beside each mount, and says of each
// error whether the call may still have had its effect. One Plugin serves one process.
//
// A driver is reached over a [grpc.ClientConnInterface]: [Serve] runs it as a real gRPC server behind an in-memory
// listener, [Direct] calls its methods on the spot, as the stepped host needs it, and [Suspend] wraps either so that each
// call leaves the component that makes it and is recorded.
//
// Not here yet: secrets other than as references that must exist, fsGroup, SELinux, inline (ephemeral) volumes, block
// volumes, expansion, republishing, service account tokens.
//
// Upstream: pkg/volume/csi.
package csi
