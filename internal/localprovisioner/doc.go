// Package localprovisioner turns the disks of a node into local PersistentVolumes, as
// sig-storage-local-static-provisioner does.
//
//	localprovisioner.New(localprovisioner.Config{
//		Process: process, Client: client, Informers: informers, Node: "node-1", Machine: machine,
//		Recorder: recorder, Classes: []localprovisioner.Class{{Name: "fast-disks", Dir: "/mnt/fast-disks"}},
//	})
//
// A class has a directory on the node. Each mount point and each block device in it becomes an
// available PersistentVolume of that class, which only this node can use. Its name is a hash of the
// file's name, the node and the class; its capacity is that of the disk. A volume that is Released
// and has the reclaim policy Delete is cleaned: the content of its directory is removed, or the
// device is zeroed. Then its PersistentVolume is deleted, and the disk is found again. With Retain
// it stays.
//
// The node is looked at when one of its volumes changes, when Notify is called, and every 10
// seconds. In a stepped world the latter does not happen at rest.
//
// Limits: devices are zeroed by the kernel, not by a command or a Job. The directory has one path,
// not one on the host and one in a container. A volume that is reserved again while it is being
// cleaned loses its data.
//
// Upstream: sigs.k8s.io/sig-storage-local-static-provisioner (v2.8), pkg/discovery, pkg/deleter.
package localprovisioner
