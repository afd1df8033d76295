package executor

import (
	"errors"
	"fmt"
	"time"
)

// ErrPending is matched by the error for an operation that overlaps a running one.
var ErrPending = errors.New("an overlapping operation is running")

// ErrBackoff is matched by the error for an operation that failed a short while ago.
var ErrBackoff = errors.New("the operation failed a short while ago")

// PendingError says that an operation cannot start while another runs. It matches ErrPending.
//
// Upstream: pkg/volume/util/nestedpendingoperations alreadyExistsError (v1.36), and its text.
type PendingError struct {
	Key     Key    // of the operation that cannot start
	Running Key    // of the one that runs
	Name    string // of the one that runs
}

// Error is upstream's text.
func (e *PendingError) Error() string {
	return fmt.Sprintf("Failed to create operation with name %s. An operation with that name is already executing.", e.Key)
}

// Is matches ErrPending.
func (e *PendingError) Is(target error) bool { return target == ErrPending }

// BackoffError says that an operation cannot start before Remaining has passed. It matches ErrBackoff.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff exponentialBackoffError (v1.36), and its text.
type BackoffError struct {
	Key       Key
	Name      string        // of the operation
	FailedAt  time.Time     // when it failed last
	Wait      time.Duration // how long it waits after that
	Remaining time.Duration // how much of Wait is left
	Failures  int           // how often it failed in succession
	Err       error         // how it failed last
}

// Error is upstream's text.
func (e *BackoffError) Error() string {
	return fmt.Sprintf("Failed to create operation with name %q. An operation with that name failed at %v. "+
		"No retries permitted until %v (%v). Last error: %q.",
		e.Key.String(), e.FailedAt, e.FailedAt.Add(e.Wait), e.Wait, e.Err)
}

// Is matches ErrBackoff.
func (e *BackoffError) Is(target error) bool { return target == ErrBackoff }

// Unwrap gives the error the operation failed with last.
func (e *BackoffError) Unwrap() error { return e.Err }

// PanicError says that an operation panicked. Its text has no stack, so that it is the same each time.
//
// Upstream: k8s.io/apimachinery/pkg/util/runtime RecoverFromPanic (v0.36).
type PanicError struct {
	Value any    // what it panicked with
	Stack string // where
}

// Error tells what the operation panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap gives the value, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
