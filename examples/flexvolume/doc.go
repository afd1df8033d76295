// Command flexvolume is two FlexVolume drivers in one program, which acts as the driver whose name
// it has. Install it on each node, and for volsim~lvm also on the machine of the attach/detach
// controller unless the kubelets attach:
//
//	dir=/usr/libexec/kubernetes/kubelet-plugins/volume/exec
//	go build -o $dir/volsim~nfs/nfs ./examples/flexvolume
//	go build -o $dir/volsim~lvm/lvm ./examples/flexvolume
//
// volsim/nfs mounts a directory that an NFS server exports: options "server" and "share". It needs
// the kernel's NFS and mount.nfs. Where these are missing, the option "export" names a directory of
// the machine that stands for the exported one; it is bound.
//
// volsim/lvm has the logical volumes of a real volume group. They are named like their
// PersistentVolumes; the option "size" creates a missing one. A file config.json next to the program
// names the volume group and its disk, a file:
//
//	{"directory": "/var/lib/volsim-lvm", "group": "flex", "disk": "/var/lib/volsim-lvm.img", "diskBytes": 1073741824}
//
// It needs root, lvm2 and loop devices, and no device-mapper; see internal/lvm2.
//
// The test holds both to plugintest.CheckFlexDriver, which checks all calls of any driver.
package main
