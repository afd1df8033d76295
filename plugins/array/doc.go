// Package array is a simulated disk array: a CSI driver whose volumes live in memory.
//
//	a := array.New(array.Config{CapacityBytes: 1 << 30, VolumesPerNode: 2})
//	controller := a.Controller()
//	node := a.Node("node-1", nodefs.NewMemory("/"))
//	response, err := controller.CreateVolume(ctx, request)
//	volumes := a.Volumes()
//
// An [Array] holds volumes, each a nodefs.Tree, and knows to which nodes each one is attached. Its
// controller service creates, attaches and lists them. A node service per node mounts them on that
// node's nodefs.Memory, or binds their devices, and only those attached there. The array enforces
// access modes: a single-node volume is attached to one node, and a single-writer volume has one
// writer. It also enforces the volume limit of a node, if any: one more gets ResourceExhausted.
// The mutable parameters of a VolumeAttributesClass are iops (1 to 1000000) and throughput (MiB/s,
// 1 to 100000): a volume remembers them, and nothing is limited.
//
// The controller service copies a volume to a snapshot, and either of them to a new volume, which
// may be larger. The group controller service creates snapshots of several volumes at one instant.
// A source may be in use. A copy does not depend on it. Snapshots do not count against the
// capacity.
//
// Array.Volumes and Array.Snapshots show a checker what is stored without going through CSI.
// Array.SetCondition makes a volume unhealthy; internal/arrayhealth reports it.
//
// The array is deterministic, starts no goroutine and reads no clock but Config.Now. Everything may
// be called concurrently.
//
// What it does not do: inject faults, which the simulation does at each driver call; know topology,
// which is not advertised; store data on block devices, so a copy of one is empty; enforce the
// size, so a volume is never full. A volume that is detached while a node still has it mounted stays
// readable and writable there. The parameters of a storage class are accepted and ignored, so an
// array named like a real driver accepts that driver's classes.
//
// Upstream: the Container Storage Interface; no driver in particular.
package array
