package plugins

import (
	"context"
	"time"
)

// A Limiter is an Attacher that can tell a kubelet that a volume exceeds the node's volume limit.
//
// Upstream: pkg/volume AttachableVolumePlugin.VerifyExhaustedResource (v1.36).
type Limiter interface {
	// Limited reports whether the node's limit can be the reason why the volume is not attached. It
	// makes no calls.
	Limited(spec *Spec) bool
	// Exhausted reports whether an attempt to attach the volume after since failed because the
	// node's limit was reached. If so, it also publishes the node's current limit.
	Exhausted(ctx context.Context, spec *Spec, since time.Time) (bool, error)
}
