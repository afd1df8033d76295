package plugins

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// A Class is what an error says about the state of the volume.
type Class int

// The classes of error.
const (
	Final     Class = iota // it did not happen and will not; also the class of any error that is not an *Error
	Transient              // it did not begin; the state is as before
	Uncertain              // it may have happened, or may still happen
)

// String returns the class as a word.
func (c Class) String() string {
	return [...]string{"final", "transient", "uncertain"}[c]
}

// An Error is an error of a known class.
//
// Upstream: pkg/volume/util/types TransientOperationFailure, UncertainProgressError.
type Error struct {
	Class Class
	Err   error
}

// Error returns the text of the wrapped error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of the first *Error in err's chain, or Final if there is none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Final
}

// A DanglingError is returned by Attach for a volume that is attached to an unexpected node.
//
// Upstream: pkg/volume/util DanglingAttachError.
type DanglingError struct {
	CurrentNode types.NodeName
	DevicePath  string
	Err         error
}

// Error returns the node to which the volume is attached, and the wrapped error.
func (e *DanglingError) Error() string {
	return fmt.Sprintf("volume is attached to node %s: %v", e.CurrentNode, e.Err)
}

// Unwrap returns the wrapped error.
func (e *DanglingError) Unwrap() error { return e.Err }
