// Package loop is a CSI driver on real block devices: loop devices of this
// machine over sparse files.
//
// One machine plays every node. A volume is the file <Dir>/<volume id>.img. To
// attach it to a node is to bind it to a loop device, "the disk is now plugged
// into that node"; the node's service makes a file system on it and mounts it
// below the root of that node's nodefs.Real, or binds the device's node there.
//
// There is no database. That a file exists is that the volume exists, its
// length is its size; beside it lies a record of what a file cannot tell
// (<volume id>.json). The loop device itself says which volume it is and
// where it is plugged in: its backing file, and a mark in its lo_file_name,
// "volsim:<run>:<volume>:<node>", of which volume and node are digests. Both
// must agree before a device is touched. A driver made again after a crash, with
// the same Dir and RunID, therefore goes on where the other one stopped.
//
// A device goes when the machine is started again, and a volume stays attached:
// nobody publishes it again then. So that it is attached stands beside the file, too
// (<volume id>.attached), and staging it gives it a device. Where the node's service
// attaches what it stages (Config.NodeAttaches), nothing is noted.
//
// A snapshot is a file too, <snapshot id>.img. Where the files of Dir's file system
// can share blocks (xfs, btrfs), a copy is made at once, at one instant, and costs
// what is written to it or its source later. Elsewhere what the source holds is
// copied, holes left out, while its file system is frozen; a volume that is used as
// a device is then not copied. Whether blocks can be shared is tried once, by New.
//
// Whatever takes more than one step begins with a file that says "unfinished" and
// ends with a rename: a record without an image, or a draft beside it. Recover
// removes such volumes, and gives attached devices the size and the settings that
// their volumes have. Files and the directory are synced in the order in which
// they count, so a machine that loses power is in one of the states that a kill
// leaves. Names in Dir that are not the driver's are left alone.
//
// A class may ask for all blocks at once (AllocateKey) and for devices past the
// kernel's cache (DirectIOKey); a volume can be set to discard or not (DiscardKey)
// and how far is read ahead (ReadAheadKey). Sparse volumes give back what their
// file systems free. Nothing is reserved for them: all of them together may promise
// more than the disk below Dir has. Config.ReserveBytes is what is left to others.
//
// The services are those of plugins/blockcsi. What it does not do: several nodes at
// once. A loop device's own limit of discarding is not used, since the kernel takes
// no other value after 0, for whoever has the device next. It needs root on Linux
// 5.8 or newer and the usual tools; Probe tells. Elsewhere it compiles and Probe
// says no.
package loop
