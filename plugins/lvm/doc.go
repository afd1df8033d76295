// Package lvm is a CSI driver on logical volumes of real LVM.
//
//	driver, err := lvm.New(ctx, lvm.Config{Nodes: []lvm.NodeConfig{{
//		Name: "node-1", LVM: lvm.LVMConfig{Directory: "/var/lib/lvm", SystemID: "node-1"},
//		Files: []lvm.File{{Path: "/var/lib/disk", SizeBytes: 1 << 30}},
//	}}})
//	controller, node := driver.Controller(), driver.Node("node-1", disk) // disk is a *nodefs.Real
//
// Each node has a volume group of its own, on given disks or on files of this machine. Its volumes
// can be used on that node only. The services are those of internal/blockcsi with one pool for each
// node; internal/lvm2 manages the volume groups. A volume is a logical volume that is named by the
// volume's ID. Its tags hold its CSI name, parameters, settings and source. So these are in the
// volume group's metadata, and a recreated driver reads them there. New refuses tags of another
// version, and changes nothing. Only attachments belong to the machine instead of the disks. They are
// recorded in the directory of the private LVM (blockcsi.AttachmentRecords). After a restart of the
// machine a volume stays attached and is activated when it is staged, possibly as another device.
//
// With device-mapper, volumes are linear, striped, mirrored or thin, and snapshots are immediate. A
// thick snapshot reserves room for everything that its origin may overwrite, and must be deleted
// before its origin. LVM freezes one file system at a time, so there are no group snapshots. A thin
// pool may be overcommitted. When it is full, writes fail, its volumes report trouble, and nothing
// more is provisioned.
//
// Without device-mapper, all volumes are linear and contiguous. Each is a partition that is
// registered with the kernel; at most 255 of one disk can be attached. A snapshot is a copy, made
// while the file system is frozen. A volume in use grows only into free extents behind it.
// Read-ahead cannot be set. The capabilities report which mode is in use.
//
// # Limits
//
// Volumes do not move between nodes. Capacity is that of the node's volume group, so a storage
// class should bind WaitForFirstConsumer and the CSIDriver object should set storageCapacity.
//
// Upstream: the CSI specification 1.13 (github.com/container-storage-interface/spec), lvm2.
package lvm
