// Package flexvolume turns programs into volume plugins: each call of such a plugin runs the
// program with the call's name and arguments, and parses its output.
//
//	cfg := flexvolume.Config{Process: process, FS: disk, Root: "/var/lib/kubelet", Client: client}
//	plugin, err := flexvolume.New(ctx, cfg, flexvolume.Dir+"/example.com~disk/disk", "example.com/disk")
//	err = manager.Put(plugin)
//
// [New] asks a program for its capabilities and returns its plugin; package prober finds the
// programs. A program prints one JSON object whose status is "Success", "Failure" or "Not
// supported". A call that is not supported is not made again and has a default: attaching does
// nothing, a device is formatted and mounted, and what is mounted for the node is bound for the
// pod. A program that fails has had no effect. The effect of one that gives no answer is uncertain.
//
// Each run leaves the process and is recorded as a driver call. A program is on the machine's disk,
// which runs it: an executable on a real disk, a function on one in memory. It is killed after two
// minutes; until then it blocks its own volume only.
//
// What it does not do: relabel files (selinuxRelabel).
//
// Upstream: pkg/volume/flexvolume (v1.36).
package flexvolume
