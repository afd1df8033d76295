// Package localstorage provisions local volumes from volume groups on the nodes, and tells the
// scheduler how much space is left.
//
//	apiVersion: storage.k8s.io/v1
//	kind: StorageClass
//	metadata: {name: fast}
//	provisioner: localstorage.volsim.dev
//	volumeBindingMode: WaitForFirstConsumer
//	allowVolumeExpansion: true
//	parameters:
//	  nodes: '[{"node": "node-1", "disks": ["/dev/sdb", "/dev/sdc"]}, {"node": "node-2", "disks": ["/dev/sdb"]}]'
//
// A [Manager] on each node makes a volume group of the disks that a class names for its node. It
// reports the group in a record: the custom resource [NodeLocalStorage], named CLASS.NODE. For a claim
// whose selected node is its own, it creates a logical volume and then a PersistentVolume of type
// local, which only that node can use.
//
// If there is no space, the manager first writes the record with the true free space, then removes
// the selected node from the claim. So the pod is scheduled again, and not by the same record. A
// [Controller] watches classes and claims, and reports what is wrong with them. It is also the
// scheduler's extender, which filters and ranks nodes by the records: free is what is neither used nor
// promised to a claim with that selected node. While it does not run, a scheduler that ignores its
// failure places pods without it, and may select a full node again and again.
//
// A scheduler does not watch records. A pod that the extender rejected is tried again when an object
// changes that the scheduler watches. So when a record has more space, becomes Ready, or a promise
// ends, the controller annotates each claim of the class that has no selected node and fits on a node:
//
//	localstorage.volsim.dev/space: "node-1: 60Mi free (2)"
//
// The number counts the notices, as an equal value would be no change. Only more space causes a
// notice, so a full cluster comes to rest. Of two claims for the last space one waits: the extender
// rejects it, or the manager removes its selected node.
//
// A disk is taken only if it is empty. One that is mounted, has a file system or other data, or belongs
// to another group is refused, and the record says what was found. A disk that is added to a class
// extends the group. A disk of a group is never removed from it, even if the class no longer names it.
// While a disk is lost the record is Degraded, no volume is created or grown, and claims wait; existing
// volumes stay, and the record lists those that are on the disk as lost. A record stays, by a finalizer,
// until its group is removed: once the class is deleted and the last volume is gone. When a node leaves,
// its record says so; its PersistentVolumes and claims stay until they are deleted manually. It is removed
// from claims without a volume that have it as their selected node. Claims whose selected node exists and
// has no running manager wait for it.
//
// # What it does not do
//
// A disk is taken for empty, and what is on it is lost, if LVM knows no signature on it and its first
// 4 KiB are zero. So is a disk that a group has released. After wipefs, the first 4 KiB must be zeroed.
// There are no snapshots and no clones. Space is not taken from a volume. Claims of classes without
// delayed binding are not provisioned.
//
// Upstream: none for the whole; sig-storage-lib-external-provisioner (v13.0.0) for claims and volumes,
// external-resizer (2.3.0) for growth.
package localstorage
