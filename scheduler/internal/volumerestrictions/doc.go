// Package volumerestrictions is the plugin VolumeRestrictions: a disk that a pod contains is used by one
// pod of a node, unless all read only, and a claim with access mode ReadWriteOncePod by one pod at all.
//
// Such disks are those of GCE, AWS, iSCSI and Ceph RBD; a disk of AWS is not shared at all.
//
// Upstream: pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
//
// Differs: claims are compared by namespace and name where a pod is added or removed. Upstream compares
// names, so a preemption of a pod in another namespace seems to free the claim. A deleted pod of another
// namespace may free a disk; upstream's hint ignores it.
package volumerestrictions
