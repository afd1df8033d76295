package executor

import (
	"errors"
	"fmt"
	"time"
)

// ErrPending is matched by the error for an operation that overlaps a running one.
var ErrPending = errors.New("an overlapping operation is running")

// ErrBackoff is matched by the error for an operation whose back-off has not passed.
var ErrBackoff = errors.New("operation is in back-off after a failure")

// A PendingError reports that an operation cannot start while another one runs. It matches
// ErrPending.
//
// Upstream: pkg/volume/util/nestedpendingoperations alreadyExistsError (v1.36), including its text.
type PendingError struct {
	Key     Key    // the operation that cannot start
	Running Key    // the running operation
	Name    string // the running operation's name
}

// Error returns upstream's text.
func (e *PendingError) Error() string {
	return fmt.Sprintf("Failed to create operation with name %s. "+
		"An operation with that name is already executing.", e.Key)
}

// Is reports whether target is ErrPending.
func (e *PendingError) Is(target error) bool { return target == ErrPending }

// A BackoffError reports that an operation cannot start before Remaining has passed. It matches
// ErrBackoff.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff exponentialBackoffError (v1.36), including its
// text.
type BackoffError struct {
	Key       Key
	Name      string        // the operation's name
	FailedAt  time.Time     // time of the last failure
	Wait      time.Duration // back-off after FailedAt
	Remaining time.Duration // part of Wait that has not passed
	Failures  int           // failures in succession
	Err       error         // last failure
}

// Error returns upstream's text.
func (e *BackoffError) Error() string {
	return fmt.Sprintf("Failed to create operation with name %q. An operation with that name failed at %v. "+
		"No retries permitted until %v (%v). Last error: %q.",
		e.Key.String(), e.FailedAt, e.FailedAt.Add(e.Wait), e.Wait, e.Err)
}

// Is reports whether target is ErrBackoff.
func (e *BackoffError) Is(target error) bool { return target == ErrBackoff }

// Unwrap returns the last failure of the operation.
func (e *BackoffError) Unwrap() error { return e.Err }

// A PanicError reports that an operation panicked. Its text contains no stack, so it is the same in
// every run.
//
// Upstream: k8s.io/apimachinery/pkg/util/runtime RecoverFromPanic (v0.36).
type PanicError struct {
	Value any    // argument of panic
	Stack string // stack at the panic
}

// Error returns the panic value as text.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
