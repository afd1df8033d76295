// Package nfs is the volume plugin "kubernetes.io/nfs": kubelets mount NFS exports for pods, and
// kube-controller-manager recycles them.
//
//	servers := nfs.NewServers(hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"})
//	plugin := nfs.New(nfs.Config{Process: kubelet, FS: disk, Root: root, Servers: servers})
//	err := plugin.SetUp(ctx, spec, pod, plugins.MountOptions{})
//
// A [Plugin] mounts an export once for each pod; nothing is attached, and pods of any number of nodes
// see the same files. In a simulated world the exports are directories of one disk ([Servers]).
// Without it the kernel mounts from real servers, with the program mount.nfs. [Plugin.Recycle] empties
// an export with a pod that mounts it (package recycler).
//
// What it does not do: provision and delete volumes, change the owner of files, and measure volumes.
// Simulated servers know no permissions, and of the mount options only "ro".
//
// Upstream: pkg/volume/nfs (v1.36).
package nfs
