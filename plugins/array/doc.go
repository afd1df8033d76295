// Package array is the simulated disk array: a CSI driver whose volumes live in
// memory.
//
// An [Array] is the box in the machine room: it holds volumes, each a
// nodefs.Tree, and knows which node each one is attached to. Its controller
// service makes, attaches and lists them; a node service per node mounts them
// on that node's nodefs.Memory, or makes the nodes of their devices be there, and
// only of what is attached there. Access modes
// are enforced at the array, as a good array does: a single-node volume goes
// to one node, a volume with a single writer has one. So is how many volumes a
// node can have, if that is limited: one more gets ResourceExhausted.
//
// It is deterministic, starts no goroutine and reads no clock; everything may
// be called concurrently. Array.Volumes shows a checker what is stored where
// without going through CSI.
//
// What it does not do: faults on command (later); snapshots, clones
// and topology, which are refused or not advertised; a device holds nothing; size
// is booked but not enforced, so a volume is never full; a volume that is detached
// while a node still has it mounted stays readable and writable there.
// The parameters of a storage class are accepted and ignored, so that an array
// named like a real driver takes that driver's classes.
package array
