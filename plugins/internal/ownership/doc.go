// Package ownership changes the group of the files of a mounted volume to that of a pod:
// spec.securityContext.fsGroup.
//
//	change := ownership.Change{
//		Process: process, FS: disk, Volume: "driver/handle",
//		Dir: "/pods/uid/mount", Pod: pod, Group: 1000,
//	}
//	err := change.Run(ctx)
//
// [NeedsChange] decides and [Apply] changes, both on any [nodefs.FS]. [Change.Run] does both in a
// task, leaves the process meanwhile, and reports a slow change in events.
//
// What it does not do: decide whether the kubelet must change a volume's group at all, which its
// plugin knows, and change owners, which stay.
//
// Upstream: pkg/volume VolumeOwnership.
package ownership
