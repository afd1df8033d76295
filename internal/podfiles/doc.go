// Package podfiles keeps the volumes whose content a kubelet itself makes on its node's disk:
// emptyDir, and what is made of config maps, secrets and pods.
//
//	disk := podfiles.Disk{Process: process, FS: node, Root: "/var/lib/kubelet"}
//	err := manager.Register(podfiles.Plugins(podfiles.Config{Disk: disk, Client: client, Allocatable: resources})...)
//
// A [Volume] is a directory below the pod's, with a marker that it is ready. [Volume.SetUp] creates
// both, [Volume.TearDown] removes both. [Volume.Write] replaces the content in one step, as a reader
// sees it: the files are in a directory named by the time, the link ..data leads to it, and a link
// for each name leads through ..data.
//
// Each change of the disk leaves the process as one effect and is recorded as a driver call on
// PLUGIN/VOLUME: SetUp and TearDown once, Write in three parts, between which a kubelet can crash.
// What is already as it should be makes no call.
//
// [Plugins] returns the plugins. A source of files says only what the files of a volume are: the
// keys of a config map or a secret, fields of the pod, or all of these with tokens of its service
// account.
//
// What it does not do: quotas, huge pages, cluster trust bundles, pod certificates.
//
// Upstream: pkg/volume/emptydir, pkg/volume/configmap, pkg/volume/secret, pkg/volume/downwardapi,
// pkg/volume/projected, pkg/volume/util atomic_writer.go, nested_volumes.go (v1.36).
package podfiles
