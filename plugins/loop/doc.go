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
// The services are those of plugins/blockcsi. What it does not do: several nodes at once. Volumes are thin: nothing is reserved, so all of
// them together may promise more than the disk below Dir has. It needs root on
// Linux 5.8 or newer and the usual tools; Probe tells. Elsewhere it compiles and
// Probe says no.
package loop
