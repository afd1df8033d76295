// Package garbagecollector deletes objects whose owners no longer exist.
//
//	garbagecollector.New(garbagecollector.Config{
//		Process: process, Client: client.Metadata(), Watcher: server.MetadataWatcher(process),
//		Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// The controller keeps a graph of the objects that have owners or dependents, as far as it has
// observed them. A change in the graph queues the affected objects. For each one it reads the
// object and its owners from the server, and then writes:
//
//   - An object whose owners are all absent is deleted.
//   - An object with a remaining owner loses its references to absent owners, and to owners that
//     wait for its deletion.
//   - An owner that waits for its dependents loses the finalizer foregroundDeletion when no
//     dependent blocks it.
//   - An owner whose dependents must outlive it loses the finalizer orphan when they no longer
//     refer to it.
//
// No deletion is decided from the graph alone. Each one has the object's UID as a precondition, and
// at first its resourceVersion. An owner that was not observed has a virtual node, as described by
// its dependents. It is requested from the server, and is then either observed or known to be
// absent.
//
// Objects without owners and dependents are not in the graph, and cost no step.
//
// # What it does not do
//
// There is no debug handler for the graph.
//
// Upstream: pkg/controller/garbagecollector (v1.36.3).
package garbagecollector
