// Package blockcsi is a CSI driver whose volumes are block devices of this
// machine: what plugins/loop and plugins/lvm have in common.
//
// A [Pool] is where volumes lie and what they are made of: a directory of sparse
// files, a volume group. It makes volumes, copies, grows and removes them, and
// lets one be a device. A [Driver] has a pool, or one for each of several nodes,
// and is the CSI services over them: it checks requests, chooses the pool by
// topology, keeps calls for one volume apart, freezes what is copied, makes file
// systems, mounts and measures them.
//
// Neither keeps what it knows in memory only. What volumes there are, what they
// were made from and where they are attached, a pool reads from the devices and
// from what it wrote beside them; what is mounted is in the mount table. So a
// driver that is killed at any instant and made again goes on: [Driver.Recover]
// finishes or undoes what had been begun, [Driver.Orphans] lists what carries the
// driver's mark and belongs to no volume.
//
// One machine may play every node of a cluster: each has a node service of its
// own on the same driver.
package blockcsi
