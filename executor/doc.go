// Package executor runs the operations on volumes of one process: attach, detach, mount, and so on.
//
// An [Operation] has a [Key] (a volume, and perhaps a pod or a node) and a name. Of two operations whose keys overlap,
// one runs at a time. An operation that failed is not started again before its back-off has passed: 500 ms after the first
// failure, doubling with each, at most 2 min 2 s. Nothing waits here and nothing is queued: [Executor.Start] says at once
// that it is too early, and the caller, who knows whether the operation is still wanted, comes back when OnDone was called
// or the remaining time has passed.
//
// Failures are counted for each key and name of operation, until that operation succeeds on an overlapping key, or twice
// the longest back-off passes without a try.
//
// Not here: upstream's generators of operations (each controller writes its own), and a bound on how many operations run
// at once.
//
// Upstream: pkg/volume/util/nestedpendingoperations, pkg/volume/util/operationexecutor,
// pkg/util/goroutinemap/exponentialbackoff (v1.36).
package executor
