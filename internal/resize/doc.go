// Package resize reads and writes the state of a volume expansion in a claim's status.
//
//	claim = resize.WithStatus(old, corev1.PersistentVolumeClaimControllerResizeInProgress)
//	claim = resize.WithAllocated(claim, size)
//	claim, err := resize.Patch(ctx, client, old, claim, false)
//	…
//	done := resize.Finished(claim, size)
//
// An expansion begins when a user requests more storage in the claim's spec. The resizer sets the
// status of the resource "storage" to ControllerResizeInProgress, and allocatedResources to the new
// size. When the volume is larger, the kubelet must follow: NodeResizePending, then
// NodeResizeInProgress. Finally the status is removed, and capacity has the new size. A final
// failure is ControllerResizeInfeasible or NodeResizeInfeasible. Conditions report the same to
// users.
//
// # What it does not do
//
// It computes and writes the next version of a claim. The resizer and the volume manager decide
// when.
//
// Upstream: pkg/volume/util resize_util.go (v1.36).
package resize
