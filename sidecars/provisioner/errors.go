package provisioner

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outcome is what an error of CreateVolume says about the volume.
type outcome int

const (
	finished   outcome = iota // there is none, and none is being made
	background                // it may exist, or be on its way
	exhausted                 // finished; there is no room for it, there may be elsewhere
	infeasible                // finished; asking again is of little use
)

// String gives the outcome as a word.
func (o outcome) String() string {
	return [...]string{"finished", "background", "exhausted", "infeasible"}[o]
}

// classify tells what an error of CreateVolume, which is not nil, says about the volume.
//
// Upstream: external-provisioner pkg/controller checkError (6.3.0), sig-storage-lib-external-provisioner
// isInfeasibleError (v13.0.0).
func classify(err error) outcome {
	s, ok := status.FromError(err)
	if !ok {
		return background
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return background
	case codes.ResourceExhausted:
		return exhausted
	case codes.InvalidArgument:
		return infeasible
	default:
		return finished
	}
}
