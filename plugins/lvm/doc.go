// Package lvm is a CSI driver on logical volumes of real LVM: each node has a
// volume group of its own, over disks that it is given or over files of this
// machine, and the volumes in it can be used on that node only.
//
// The services are those of plugins/blockcsi, over a pool for each node; all work
// on volume groups is done by internal/lvm2. A volume is a logical volume with the
// volume's ID as its name. What CSI wants to be told again stands in its tags: its
// name, parameters and settings, what it was made from. What is in the volume group's
// metadata is so, and a driver that is made again reads it there. Only whether a volume
// is attached, which is about this machine and not about the disks, is noted in the
// directory of the private LVM (blockcsi.Notes).
//
// A volume stays attached when the machine is started again, and is activated as
// it is staged the next time. Its device may then be another one.
//
// With device-mapper volumes are linear, striped, mirrored or thin, and a snapshot
// is one that LVM makes at once: thin, or thick with a place to copy to that takes
// all its origin may lose, and goes before its origin. LVM freezes a file system
// for it, one at a time, so there are no group snapshots. A thin pool may promise
// more than it has; when it is full writes fail, which its volumes' Trouble tells,
// and no more is promised.
//
// Without device-mapper all volumes are linear and in one piece, each a partition
// that the kernel is told of, at most 255 of one disk attached at a time. A snapshot
// is a copy, for which a file system is frozen. A volume that is in use grows only
// as far as there is room behind it. Reading ahead cannot be set. Which it is, the
// capabilities tell.
//
// Room is that of the node's volume group, so a storage class should bind
// WaitForFirstConsumer and the driver's CSIDriver object say storageCapacity.
package lvm
