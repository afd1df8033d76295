// Package health adds CSI 1.13's health calls to the services of internal/blockcsi.
//
//	services := health.New(driver, health.Config{LowBytes: 2 << 30})
//	csi.RegisterControllerServer(server, services.Controller())
//	csi.RegisterNodeServer(server, services.Node("node-1", node))
//
// The calls are ControllerGetVolumeHealth, ControllerListVolumeHealth, NodeGetVolumeHealth and
// NodeGetStorageHealth. They are alpha. CSI 1.12 lacks these symbols, so they are in a package of
// their own: programs that use the drivers as a library may have to build with CSI 1.12.
//
// Every call checks the current state and stores nothing:
//
//   - what the pool reports about a volume
//   - whether its device exists, has the volume's size and can be read
//   - whether the kernel has counted file system errors or made the file system read-only
//   - whether the volume is at its staging and publish paths
//   - whether its backing store has enough space to fill it
//
// Reading a device can block indefinitely. A call waits a few seconds. Until the device responds,
// later calls report the same and do not read it again.
//
// Limits: an empty answer means that none of these problems was found. The content of volumes is
// not read.
//
// Upstream: the CSI specification 1.13 (github.com/container-storage-interface/spec).
package health
