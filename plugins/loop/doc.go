// Package loop is a CSI driver on loop devices over sparse files of this machine.
//
//	driver, err := loop.New(loop.Config{Dir: "/var/lib/volumes"})
//	done, err := driver.Recover(ctx) // after a crash
//	controller := driver.Controller()
//	node := driver.Node("node-1", disk) // disk is a *nodefs.Real
//	defer driver.Close()                // removes all volumes
//
// One machine simulates every node. A volume is the file <Dir>/<volume id>.img. Attaching it to a
// node binds the file to a loop device. The node service makes a file system on the device and
// mounts it below the root of that node's nodefs.Real, or binds the device node there. The services
// are those of internal/blockcsi.
//
// # State
//
// There is no database. A volume exists if its file exists, and the file's length is its size.
// Other properties are in a record next to it (<volume id>.json). The loop device identifies the
// volume and the node. Its backing file is the volume's, and its mark (lo_file_name) is
// "volsim:<run>:<volume>:<node>" with digests of volume and node. Both must match before a device
// is changed. So a driver that is recreated after a crash, with the same Dir and RunID, continues.
//
// Records have a version. New refuses a Dir with a record of another version, or with one that no
// version writes, and changes nothing.
//
// A restart of the machine removes all devices, but volumes stay attached and are not published
// again. Attachments are therefore recorded next to the file (<volume id>.attached), and staging
// recreates the device. With Config.NodeAttaches the node service attaches what it stages, and
// nothing is recorded.
//
// Every operation of several steps starts with a file that marks it as unfinished, a record without
// an image or a draft, and ends with a rename. Recover removes unfinished volumes. It applies the
// size and settings of volumes to their devices. Files and the directory are synced in order, so a
// power failure leaves a state that a kill could leave. Other names in Dir are ignored.
//
// # Copies
//
// A snapshot is a file too, <snapshot id>.img. If Dir's file system can share blocks (xfs, btrfs),
// a copy is immediate, has the content of one instant and needs space only for later changes. New
// tests for that. Otherwise the data of the source is copied without holes while its file system is
// frozen, and a block volume in use is not copied.
//
// # Parameters
//
// The class parameters "allocate" (sparse or full) and "directIO" select the allocation of blocks
// and direct I/O. The settings "discard" and "readAheadKiB" can be modified. docs/drivers.md
// describes them. Sparse volumes free the blocks that their file systems discard. They reserve no
// space, so all of them together may exceed the disk of Dir. Config.ReserveBytes keeps some of it
// free.
//
// # Limits
//
// A volume is used on one node at a time. The discard limit of a loop device is not used, because
// the kernel cannot raise it again for the next user once it was 0. The driver needs root on Linux
// 5.8 or newer and the usual tools; Probe reports what is missing. On other systems Probe returns
// an error.
//
// Upstream: the CSI specification 1.13 (github.com/container-storage-interface/spec).
package loop
