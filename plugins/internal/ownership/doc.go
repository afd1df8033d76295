// Package ownership gives the files of a mounted volume to the group of a pod: spec.securityContext.fsGroup.
//
// [NeedsChange] decides, [Apply] does, both on any [nodefs.FS]; [Change.Run] does it from inside a component, which it leaves
// meanwhile, and says in events when it takes long.
//
// Not here: whether a volume's files are to be given to a group at all, which is its plugin's to know; and owners, who stay.
//
// Upstream: pkg/volume VolumeOwnership.
package ownership
