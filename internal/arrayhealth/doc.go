// Package arrayhealth adds CSI 1.13's health calls to the services of the simulated disk array.
//
//	disks := array.New(array.Config{})
//	services := arrayhealth.New(disks)
//	csi.RegisterControllerServer(server, services.Controller())
//	csi.RegisterNodeServer(server, services.Node("node-1", nodefs.NewMemory("/")))
//
// The calls are ControllerGetVolumeHealth, ControllerListVolumeHealth, NodeGetVolumeHealth and
// NodeGetStorageHealth. They are alpha. CSI 1.12 lacks these symbols, so they are in a package of
// their own, as are those of drivers on block devices (internal/blockcsi/health).
//
// Every call reports the conditions that Array.SetCondition has set. A node also reports a volume
// that is not attached there, or not at its staging and publish paths, and an array without free
// space.
//
// Upstream: the CSI specification 1.13 (github.com/container-storage-interface/spec).
package arrayhealth
