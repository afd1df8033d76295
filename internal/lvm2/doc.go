// Package lvm2 gives a node volume groups of real LVM, with device-mapper or
// without.
//
// A [System] is a private LVM on this machine: a directory with a configuration
// of its own, its own locks, and nodes of the disks that it was given and no
// others. The machine's own LVM is not asked, and its volume groups are never
// seen; what a System makes carries its system ID, so that the machine's own
// tools refuse to touch it. All that changes metadata is done by the lvm command;
// what is known is read back from the disks each time. Nothing is kept in files
// beside them, and in memory what holds as long as they do not differ, so that a
// process that was killed begins where it stopped.
//
// A [VolumeGroup] holds logical volumes; one command at a time changes it, in the
// order in which it was asked for. Tags and removals that wait for it at one time are
// made by one command: of a large volume group each takes long to read. A volume has a
// device while it is active. There are two ways to that:
//
//   - With device-mapper: LVM does all, and all layouts are to be had.
//   - Without: LVM keeps the metadata, and an active volume is a partition that the
//     kernel is told of (BLKPG) on the disk that the volume lies on. So it must
//     lie in one piece: volumes are made contiguous, and grow only where there is
//     room behind them, or by moving to another place while nobody has them open.
//     Ordinary metadata is read without asking LVM, and removals discard by
//     themselves, since lvm is told of no sysfs, in which it would lose its way.
//
// Why partitions, rather than loop devices at an offset: there is no second
// driver and no second cache between volume and disk; they grow in use in one
// step; the kernel refuses to take one away that anybody has open, and says so;
// it refuses two that overlap; and sysfs tells where each lies, which is what
// says whose it is. A disk has at most 255 of them. The disk itself is a loop device
// then, over a file or over the block device that was given: the kernel looks for
// partitions on other disks by itself whenever somebody like udev asks it to, and
// would forget ours.
//
// Not done, on purpose: shared volume groups (lvmlockd), caches, VDO, moving
// extents (pvmove returns success without device-mapper and leaves the volume
// unusable), repair of damaged metadata.
package lvm2
