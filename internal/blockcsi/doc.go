// Package blockcsi implements a CSI driver whose volumes are block devices of this machine. It is
// the common part of plugins/loop and plugins/lvm.
//
//	driver, err := blockcsi.New(blockcsi.Config{Name: "disk.example.com", Pools: pools})
//	done, err := driver.Recover(ctx) // after a crash
//	csi.RegisterIdentityServer(server, driver.Identity())
//	csi.RegisterControllerServer(server, driver.Controller())
//	csi.RegisterNodeServer(server, driver.Node("node-1", node))
//
// A [Pool] stores volumes, such as a directory of sparse files or a volume group. It creates,
// copies, grows and removes volumes and attaches them as devices. A [Driver] has one pool, or one
// for each of several nodes. It implements the CSI services on top of them. It validates requests,
// selects the pool by topology, serializes calls for one volume, freezes what is copied, and makes,
// mounts and measures file systems. One machine can simulate every node of a cluster: each node has
// its own node service of the same driver.
//
// Neither keeps state only in memory. A pool reads volumes, their sources and attachments from the
// devices and from its records next to them; mounts are in the mount table. So a driver can be
// killed at any instant and recreated. [Driver.Recover] completes or undoes what was interrupted.
// [Driver.Orphans] lists what carries the driver's mark but belongs to no volume.
//
// A copy has the content of one instant. A mounted file system is frozen during the copy and thawed
// afterwards. If the driver is killed meanwhile, Recover thaws it. For a group snapshot all volumes
// are frozen first. Volumes that cannot be frozen together, such as several block devices in use,
// are refused. A group consists only of its snapshots, which record their number, so an incomplete
// group is detected. Staging allows a copy's file system to be mounted together with its source
// (xfs by a mount option, btrfs by a new UUID) and to grow to the size of its volume.
//
// Package blockcsitest tests these guarantees for a driver.
//
// Limits: volumes have single-node access modes, and stay on their machine.
//
// Upstream: the CSI specification 1.13 (github.com/container-storage-interface/spec).
package blockcsi
