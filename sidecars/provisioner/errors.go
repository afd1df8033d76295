package provisioner

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An outcome is what an error of CreateVolume states about the volume.
type outcome int

const (
	finished   outcome = iota // it does not exist and is not being created
	background                // it may exist or be in creation
	exhausted                 // finished; no space here, but possibly elsewhere
	infeasible                // finished; a retry is unlikely to succeed
)

// String returns the outcome in lower case.
func (o outcome) String() string {
	return [...]string{"finished", "background", "exhausted", "infeasible"}[o]
}

// classify returns the outcome of a non-nil error of CreateVolume.
//
// Upstream: external-provisioner pkg/controller checkError (6.3.0),
// sig-storage-lib-external-provisioner isInfeasibleError (v13.0.0).
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
