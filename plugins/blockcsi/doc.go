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
// A copy holds one instant. The file system of a volume that is mounted is frozen
// while it is copied, and thawed whatever happens; what a kill leaves frozen,
// Recover thaws. A group of snapshots is frozen as a whole first: what cannot be
// still together, such as several devices in use, is refused. A group is nothing but
// its snapshots, which say how many they are, so that one that was cut short is
// known. Staging lets a copy's file system be mounted beside its source (xfs by a
// mount option, btrfs by a UUID of its own) and grow to the size of its volume.
//
// What of this holds for a driver, package blockcsitest checks.
//
// One machine may play every node of a cluster: each has a node service of its
// own on the same driver.
package blockcsi
