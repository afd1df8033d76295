// Package nodefs is the disk of one node as its kubelet and its drivers see
// it: files, directories and the mount table.
//
// Everything lies below one root directory. [FS] is what the kubelet's side of
// the simulator uses; it has two implementations that pass one conformance
// suite. [Real] works on the kernel's own files and mounts. [Memory] keeps all
// in memory: its mounts make a [Tree], the content of a volume, visible at a
// path, as often and on as many nodes as wanted, so that a checker can ask the
// tree afterwards whether any data was lost.
//
// The root is a guard: a path that is not absolute, not below the root, holds a
// ".." element or leaves the root through a symbolic link is refused with
// [ErrOutside] before anything is touched.
//
// A symbolic link may lead anywhere; only who follows one that leaves the root is
// refused. A device node tells which device it is of.
//
// What is in a volume belongs to its pods, which may swap a directory for a link at any
// moment. The three methods that end in Within are for paths there: they go from open
// directory to open directory, and follow no link that was not there when they looked.
//
// Not modelled, on purpose: in Memory what owners and modes permit, hard links,
// what a device holds; mount propagation, open file handles (in Memory a path is busy only
// because of a mount below it), sizes and a full disk. Elsewhere the guard protects
// from mistakes, not from another process that swaps symbolic links meanwhile.
package nodefs
