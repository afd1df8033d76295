package csi

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins"
)

// classify wraps a driver's error with its class: whether the call may still have had, or have, its
// effect.
//
// Upstream: pkg/volume/csi isFinalError (v1.36).
func classify(err error) error {
	if err == nil {
		return nil
	}
	class := plugins.Final
	s, ok := status.FromError(err)
	if !ok {
		class = plugins.Uncertain
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		class = plugins.Uncertain
	}
	return &plugins.Error{Class: class, Err: err}
}
