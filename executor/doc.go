// Package executor runs the operations of one process on volumes: attach, detach, mount and others.
//
//	x := executor.New(executor.Config{Process: process, OnDone: requeue})
//	err := x.Start(executor.Operation{Key: key, Name: "volume_attach", Run: attach})
//	if errors.Is(err, executor.ErrPending) {
//		return // OnDone will requeue the volume
//	}
//
// An [Operation] has a [Key] (a volume, and optionally a pod or a node) and a name. Of the
// operations whose keys overlap, one runs at a time. A failed operation is not started again before
// its back-off has passed: 500 ms after the first failure, doubled with each further one, at most 2
// min 2 s. [Executor.Start] never blocks: it returns an error if it is too early. The caller knows
// whether the operation is still needed; it retries when OnDone is called or the remaining time has
// passed.
//
// Failures are counted for each key and operation name. The count ends when that operation succeeds
// on an overlapping key, or when twice the longest back-off passes without an attempt.
//
// The number of running operations is bounded, but volumes do not delay each other. An operation on
// a volume without running operations starts at once; further operations on that volume wait in a
// queue.
//
// An operation works in Run, which may leave the process and may call plugins. Its result is
// processed in Done, which is always called. A panic in Run is a failure of that operation alone.
//
// What it does not do: it has no operation generators as upstream has; each controller writes its
// own operations.
//
// Upstream: pkg/volume/util/nestedpendingoperations, pkg/volume/util/operationexecutor,
// pkg/util/goroutinemap/exponentialbackoff (v1.36).
package executor
