// Package executor runs the operations on volumes of one process: attach, detach, mount, and so on.
//
// An [Operation] has a [Key] (a volume, and perhaps a pod or a node) and a name. Of two operations whose keys overlap,
// one runs at a time. An operation that failed is not started again before its back-off has passed: 500 ms after the first
// failure, doubling with each, at most 2 min 2 s. Nobody waits here for another's end: [Executor.Start] says at once that it
// is too early, and the caller, who knows whether the operation is still wanted, comes back when OnDone was called or the
// remaining time has passed.
//
// Failures are counted for each key and name of operation, until that operation succeeds on an overlapping key, or twice
// the longest back-off passes without a try.
//
// How many operations run at once is bounded, in a way that keeps volumes apart: one on a volume of which nothing runs
// begins at once, whatever hangs elsewhere, and what a volume has more of takes its turn. So a volume waits for its own
// operations at most.
//
// An operation does its work in Run, which may leave the component and may call plugins; what came of it is taken in by
// Ended, which is called always: also when Run panicked, which is that operation's failure, and nobody else's.
//
// Not here: upstream's generators of operations (each controller writes its own).
//
// Upstream: pkg/volume/util/nestedpendingoperations, pkg/volume/util/operationexecutor,
// pkg/util/goroutinemap/exponentialbackoff (v1.36).
package executor
