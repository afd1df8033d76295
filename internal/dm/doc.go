// Package dm creates block devices with injected faults, using the kernel's device-mapper.
//
//	disk, err := dm.NewDisk(ctx, "faulty", "/dev/loop0")
//	err = disk.SetBehaviour(ctx, dm.FailsWrites())
//	...
//	err = disk.Remove(ctx)
//
// A [Disk] forwards all requests to a backing device until SetBehaviour changes that. It can fail
// writes or all requests, drop writes that it confirmed, or delay requests. It can change while in
// use: requests in flight complete first. A Disk never changes the data that it forwards, so a disk
// that is Healthy again shows the content of its backing.
//
// The package uses dmsetup(8), which requires root and the package dmsetup (a dependency of lvm2).
// On a machine without device-mapper (see Probe), tests run in a guest: see cmd/umlexec.
//
// Single bad sectors (dm-dust) and write logs (dm-log-writes) are out of scope.
package dm
