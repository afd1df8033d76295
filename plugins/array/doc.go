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
// Array.Volumes shows a checker what is stored without going through CSI.
//
// The array is deterministic, starts no goroutine and reads no clock. Everything may be called
// concurrently.
//
// What it does not do: inject faults, which the simulation does at each driver call; take snapshots
// and clones and know topology, which are rejected or not advertised; store data on block devices;
// enforce the size, so a volume is never full. A volume that is detached while a node still has it
// mounted stays readable and writable there. The parameters of a storage class are accepted and
// ignored, so an array named like a real driver accepts that driver's classes.
//
// Upstream: the Container Storage Interface; no driver in particular.
package array
