// Package invariant holds the rules that must never be broken in a world, whatever the order in which things happen.
//
// A [Rule] is named as in its family's file, by number ("I1": safety, "L1": liveness) and by what it forbids. [Watch]
// sets rules over a [World]; each is told of every commit of the API server, every driver call and every delivery as soon
// as it has taken effect, looks at the objects that were touched and no others, and calls [Checker.Report] where it is
// broken. When faults have stopped and nothing is left to happen, [Checker.CheckAtRest] asks what is still owed; each [Pending] says
// which rule asks for it, of what, and why.
//
// A rule keeps what it must remember in a value of its own for each world: rules share nothing, and read the world without
// leaving a trace. They are for one goroutine: that of a stepped host, or, live, whoever holds the world still.
//
// Files are families: what binds a claim, what it may be given, when it is lost, when data may go, how volumes are made, what
// attaches a volume, what a node has mounted. A rule about what controllers do does not bind users, and a controller is
// blamed only for what it could know: seen.go tells that from the log.
//
// The data behind PersistentVolumes is what a [Backend] holds: that of the CSI driver, or a plugin of the PersistentVolume
// controller. Rules about data are the same for both, and recycling counts as deleting.
//
// Not here: searching for an order in which a rule is broken, and comparing end states.
package invariant
