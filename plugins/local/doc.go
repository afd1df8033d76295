// Package local is the volume plugin "kubernetes.io/local-volume": a PersistentVolume that is a
// directory of one node.
//
//	plugin := local.New(local.Config{Process: process, Machine: hostpath.Machine{FS: node, Root: root}})
//	err := manager.Register(plugin)
//
// The directory, which is a disk of the node or part of one, is bound into the directories of the
// pods. Nothing is attached. Validation requires that such a volume names its node.
//
// What it does not do: volumes on block devices, formatted or raw, which it refuses.
//
// Upstream: pkg/volume/local (v1.36).
package local
