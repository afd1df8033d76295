// Package hostpath is the volume plugin "kubernetes.io/host-path" of kube-controller-manager: a
// volume is a directory of a machine.
//
//	machine := hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
//	plugin := hostpath.New(hostpath.Config{Caller: process, Machine: machine, Provisioning: true})
//	volume, err := plugin.Provision(ctx, plugins.ProvisionOptions{Name: "pvc-1", Claim: claim})
//	err = plugin.Delete(ctx, &plugins.Spec{PersistentVolume: volume})
//
// [Plugin] creates directories for claims if that is enabled, deletes them, and recycles them with
// a pod (package recycler). The machine is a [Machine]: a directory of a nodefs.FS that represents
// its root. Each call that accesses the disk leaves the process as one effect, is recorded as a
// driver call on "kubernetes.io/host-path/NAME" with the directory in its details, and is subject
// to fault injection.
//
// Upstream's plugin works on the machine on which the controller happens to run; a pod gets the
// directory of that name on its own node. Only in a cluster of one node are these the same. In a
// larger cluster a volume differs per node, and recycling empties that of one of them. So it is
// here: the plugin is for tests and for learning, as upstream's is.
//
// For a kubelet the plugin checks the type of what is at a path of its node, and creates it if the
// pod asks for that. Containers get what is at the path; nothing is mounted or unmounted.
//
// What it does not do: set SELinux labels.
//
// Upstream: pkg/volume/hostpath (v1.36).
package hostpath
