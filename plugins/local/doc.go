// Package local is the volume plugin "kubernetes.io/local-volume": a PersistentVolume that is a
// directory or a block device of one node.
//
//	plugin := local.New(local.Config{Process: process, Machine: hostpath.Machine{FS: node, Root: root}})
//	err := manager.Register(plugin)
//
// A directory, which is a disk of the node or part of one, is bound into the directories of the
// pods. A block device is formatted if it is empty, mounted once for the node and then bound for
// the pods. In block mode pods get the device itself. Nothing is attached. Validation requires that
// such a volume names its node.
//
// Limits: mount options other than "ro" have no effect on a directory. A symbolic link to a device
// must be relative, as the machine's root is a directory. Usage is not measured.
//
// Upstream: pkg/volume/local (v1.36).
package local
