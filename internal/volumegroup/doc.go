// Package volumegroup keeps the volume groups of one node, one for each storage class, and their
// logical volumes.
//
//	var groups volumegroup.Backend = volumegroup.NewMemory(disk, "/node-1")
//	report, err := groups.Ensure(ctx, "fast", []string{"/dev/sdb", "/dev/sdc"})
//	volume, err := groups.Create(ctx, "fast", volumegroup.Spec{Name: "pvc-1", Size: 1 << 30})
//	fmt.Println(volume.Path) // /dev/fast/pvc-1
//
// A Backend takes only disks that are empty. A disk that is mounted, has a file system or belongs to
// another group is refused and not touched, and the report says what was found. On a real disk, so is
// other data in its first 4 KiB; a disk in memory has no bytes. A volume is unfinished from Create to
// Finish, so that a caller that was killed in between finds it.
//
// Memory keeps the groups in memory, over the devices of a nodefs.Memory. LVM has real volume groups
// of package lvm2. Both pass the same tests, with the same sizes: extents of 4 MiB, and 1 MiB of each
// disk for metadata.
//
// # What it does not do
//
// Groups are not shared between nodes. A disk is never removed from a group.
//
// Upstream: none.
package volumegroup
