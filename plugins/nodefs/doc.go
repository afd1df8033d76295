// Package nodefs provides the file system of one node, with its mount table, to a kubelet and to
// drivers.
//
//	node := nodefs.NewMemory("/var/lib/kubelet")
//	volume := nodefs.NewTree()
//	_ = node.MkdirAll("/var/lib/kubelet/pods/a")
//	_ = node.MountTree(volume, "disk-1", "/var/lib/kubelet/pods/a", false)
//	_ = node.WriteFile("/var/lib/kubelet/pods/a/file", []byte("data"))
//	fmt.Println(volume.Files()) // [file]
//
// Everything lies below one root directory. [FS] has two implementations that pass one conformance
// suite. [Real] uses the kernel's files and mounts. [Memory] keeps everything in memory. Its mounts
// make a [Tree], the content of a volume, visible at a path. One tree can be mounted many times and
// on many nodes, so a checker can read it afterwards and detect lost data. FS is composed of roles
// of at most five methods: [Reader], [Writer], [attributeSetter], [Mounter], [confined],
// [deviceLocker], [replacer], [ramDisk], [programs], [exportMounter] and [formatter]. Code that
// needs only some methods asks for those roles.
//
// Every call checks its paths against the root. A path is refused with [ErrOutside] if it is not
// absolute, lies outside the root, has a ".." element or leaves the root through a symbolic link.
// Nothing has changed by then. A symbolic link may point anywhere; only following it out of the
// root is refused. A device node reports the device that it refers to.
//
// A program on the disk is run by Run: an executable by Real, a Go function by Memory.
//
// Pods own the content of a volume and may replace a directory by a symbolic link at any moment.
// The methods of [confined] are safe for paths inside a volume. They open one directory after the
// other and follow no link that appeared after the path was resolved.
//
// # Limits
//
// Memory does not model permission checks, hard links, mount propagation, open files or full disks.
// A device in Memory has an identity, a size and, once it is formatted, a [Tree]. It has no bytes:
// what a program would write to a raw device does not exist. A path in Memory is busy only because
// of a mount below it. Outside of [confined], the root check protects against mistakes, not against
// a concurrent process that replaces directories by links.
//
// Upstream: k8s.io/mount-utils (v0.36), pkg/volume/util/subpath and
// pkg/volume/util/volumepathhandler (v1.36).
package nodefs
