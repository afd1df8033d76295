// Package lvm2 manages volume groups of real LVM, with device-mapper or without.
//
//	system, err := lvm2.Open(lvm2.Config{Directory: "/var/lib/lvm", SystemID: "node-1"})
//	disk, err := system.AddFile(ctx, "/var/lib/disk", 1<<30)
//	spec := lvm2.GroupSpec{Name: "vg", Disks: []string{disk.Name}}
//	group, err := system.CreateVolumeGroup(ctx, spec)
//	volume, err := group.Create(ctx, lvm2.Spec{Name: "data", Size: 64 << 20})
//	device, err := group.Activate(ctx, volume.Name)
//
// A [System] is a private LVM on this machine: a directory with its own configuration and locks,
// and with device nodes of the disks that were added and no others. It does not use the machine's
// own LVM and never sees its volume groups. Everything that it creates carries its system ID, so
// the machine's own tools refuse to change it. The lvm command makes all changes of metadata.
// Reports are read from the disks; the last one is cached while the disks are unchanged. The
// package keeps no other state, so it continues after its process was killed.
//
// A [VolumeGroup] holds logical volumes. Commands change it one at a time, in the order of the
// calls. Reading a large volume group is slow, so tag changes and removals that wait at the same
// time share one command. An active volume has a device. There are two modes:
//
//   - With device-mapper, LVM activates volumes and all layouts are available.
//   - Without it, LVM only keeps the metadata. An active volume is a partition of its disk, which is
//     registered with the kernel (BLKPG). So volumes must be contiguous. They grow into free extents
//     behind them or, while inactive, by moving elsewhere. Simple metadata is read without LVM. lvm
//     runs without sysfs and therefore does not discard; this package does.
//
// Partitions have advantages over loop devices at an offset. There is no second driver or cache
// between volume and disk. They grow in one step while in use. The kernel refuses to remove an open
// one, and refuses overlapping ones. Sysfs shows where each lies, which identifies its volume. A
// disk has at most 255 partitions. The disk itself is then always a loop device, over a file or
// over the given block device. On other disks the kernel rescans partitions whenever a program such
// as udev asks for it, and would drop ours.
//
// Limits: no shared volume groups (lvmlockd), caches or VDO, and no repair of damaged metadata. It
// does not move extents: without device-mapper pvmove returns success and leaves the volume
// unusable.
//
// Upstream: lvm2 (lvm(8), on-disk format lvm2) and the Linux kernel's BLKPG ioctl.
package lvm2
