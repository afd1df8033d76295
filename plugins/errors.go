package plugins

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Class tells what an error says about the state of the volume.
type Class int

// The classes of error.
const (
	Final     Class = iota // it did not happen and will not; also any error that is not an *Error
	Transient              // it did not begin; the state is what it was before
	Uncertain              // it may have happened, or may still happen
)

// String gives the class as a word.
func (c Class) String() string {
	return [...]string{"final", "transient", "uncertain"}[c]
}

// Error is an error of a known class.
//
// Upstream: pkg/volume/util/types TransientOperationFailure, UncertainProgressError.
type Error struct {
	Class Class
	Err   error
}

// Error is the text of the error within.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the error within.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of the first *Error in err's chain, and Final where there is none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Final
}

// DanglingError is returned by Attach when the volume turned out to be attached to another node than anybody knew.
//
// Upstream: pkg/volume/util DanglingAttachError.
type DanglingError struct {
	CurrentNode types.NodeName
	DevicePath  string
	Err         error
}

// Error tells where the volume is.
func (e *DanglingError) Error() string {
	return fmt.Sprintf("volume is attached to node %s: %v", e.CurrentNode, e.Err)
}

// Unwrap gives the error within.
func (e *DanglingError) Unwrap() error { return e.Err }
